//! Events within events: each becomes an event of its own, with what it lacks from its parent.

use std::borrow::Cow;

use icecore_model::event::EventId;

use super::{
    Frame, NestedIn, Preparation, UnconfiguredEvent, UnconfiguredReason, check_times, rest,
};
use crate::envelope::{Inherited, NestedEvent, limit, limits};
use crate::event_id::nested_event_id;
use crate::mask::mask_kept;
use crate::outcome::{duration, is_lifecycle};
use crate::{EventBody, Problem};

impl<'a> Preparation<'a, '_> {
    /// The events nested in the one of `parent`. Their number and depth are limited where they are
    /// read.
    pub(super) fn nested(
        &mut self,
        parent: &Frame<'a>,
        events: Vec<NestedEvent<'a>>,
    ) -> Result<(), Problem> {
        for (index, event) in (0..).zip(events) {
            if !is_lifecycle(&event.body.attributes, "STARTED") {
                self.nested_event(parent, index, event)?;
            }
        }
        Ok(())
    }

    fn nested_event(
        &mut self,
        parent: &Frame<'a>,
        index: u32,
        event: NestedEvent<'a>,
    ) -> Result<(), Problem> {
        let event_type = nested_type(&parent.event_type, event.name);
        if event_type.len() > limits::MAX_TYPE_BYTES {
            let bytes_max = limits::MAX_TYPE_BYTES;
            return Err(limit(format!(
                "the name of a nested event is longer than {bytes_max} bytes"
            )));
        }
        let started_ns = event.started_ns.unwrap_or(parent.started_ns);
        // An end that was not sent cannot be wrong: one before the start is none.
        let inherited = parent.ended_ns.filter(|ended_ns| *ended_ns >= started_ns);
        let mut frame = Frame {
            id: nested_event_id(parent.id, index, &event_type, started_ns),
            parent: Some(parent.id),
            event_type,
            started_ns,
            ended_ns: event.ended_ns.or(inherited),
            ..parent.clone()
        };
        check_times(self.context, frame.started_ns, frame.ended_ns)?;
        let mut body = event.body;
        let nested = std::mem::take(&mut body.nested);
        frame.duration_ns = match self.service.types.get(&*frame.event_type) {
            Some(event_type) => {
                let key = self.context.masking_key;
                mask_kept(&event_type.masking, key, &mut Cow::default(), &mut body)?;
                let rest = rest::of_nested(&body);
                self.store(&frame, event.ended_ns, body, rest, event_type)?
            }
            None => self.unconfigured(&frame, parent.id, event.ended_ns, body),
        };
        self.nested(&frame, nested)
    }

    fn unconfigured(
        &mut self,
        frame: &Frame<'a>,
        parent: EventId,
        own_end: Option<i64>,
        body: EventBody<'a>,
    ) -> Option<i64> {
        self.family.unconfigured.push(UnconfiguredEvent {
            reason: UnconfiguredReason::NestedEventType,
            service: frame.service.clone(),
            event_type: frame.event_type.clone(),
            id: frame.id,
            started_ns: frame.started_ns,
            text: body.text,
            nested_in: Some(NestedIn {
                inherited: Inherited {
                    parent,
                    ended_ns: frame.ended_ns.filter(|_| own_end.is_none()),
                    duration_ns: frame.duration_ns,
                },
                trace_id: frame.trace_id,
                span_id: frame.span_id,
                parent_span_id: frame.parent_span_id,
                correlation_id: frame.correlation_id.clone(),
                synthetic: frame.synthetic,
            }),
        });
        duration(&body.attributes, frame.started_ns, own_end).or(frame.duration_ns)
    }
}

/// The type of a nested event: its name in lower case, with one `_` for each run of characters that
/// types do not have; without a name, that of its parent with `:event` behind it.
fn nested_type<'a>(parent: &str, name: Option<Cow<'a, str>>) -> Cow<'a, str> {
    let name = name.unwrap_or_default();
    let trimmed = name.trim();
    if trimmed.is_empty() {
        return Cow::Owned(format!("{parent}:event"));
    }
    let is_allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-');
    if trimmed.len() == name.len() && name.chars().all(is_allowed) {
        return name;
    }
    let mut event_type = String::with_capacity(trimmed.len());
    let mut in_run = false;
    for c in trimmed.chars().flat_map(char::to_lowercase) {
        let allowed = is_allowed(c);
        if allowed {
            event_type.push(c);
        } else if !in_run {
            event_type.push('_');
        }
        in_run = !allowed;
    }
    Cow::Owned(event_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_types() {
        for (name, expected) in [
            (Some("payment.authorised"), "payment.authorised"),
            (Some("  Payment  Authorised! "), "payment_authorised_"),
            (Some("a__b"), "a__b"),
            (Some("É/É-x"), "_-x"),
            (Some(" "), "order:event"),
            (None, "order:event"),
        ] {
            assert_eq!(nested_type("order", name.map(Cow::Borrowed)), expected);
        }
    }
}
