//! What a resource and a scope give to the series under them, and `target_info`.
//!
//! | attribute | becomes |
//! | --- | --- |
//! | `service.namespace`, `service.name` | `job="namespace/name"` |
//! | `service.instance.id` | `instance` |
//! | those that are promoted | labels of every series |
//! | all others | labels of `target_info` |

use std::collections::BTreeMap;

use icecore_model::{Metadata, MetricType, Sample, SampleSink};

use super::attributes::{Attribute, read_attribute};
use super::label_names::label_name;
use super::labels::{BaseLabel, push_label};
use super::point::to_ms;
use super::request::Decoder;
use super::translation::Translation;
use super::value::push_text;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, known, varint_tag};

const SERVICE_NAMESPACE: &[u8] = b"service.namespace";
const SERVICE_NAME: &[u8] = b"service.name";
const SERVICE_INSTANCE: &[u8] = b"service.instance.id";

const TARGET_INFO: &str = "target_info";

/// `Resource { KeyValue attributes = 1; uint32 dropped_attributes_count = 2; EntityRef
/// entity_refs = 3; }`
#[derive(Default)]
pub(super) struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

/// `InstrumentationScope { string name = 1; string version = 2; KeyValue attributes = 3;
/// uint32 dropped_attributes_count = 4; }`, and its schema URL.
#[derive(Default)]
pub(super) struct Scope<'a> {
    name: &'a [u8],
    version: &'a [u8],
    pub(super) schema_url: &'a [u8],
    attributes: Vec<Attribute<'a>>,
    /// Whether its labels were computed.
    pub(super) prepared: bool,
}

impl<'a> Resource<'a> {
    pub(super) fn clear(&mut self) {
        self.attributes.clear();
    }

    pub(super) fn read(&mut self, message: &'a [u8]) -> Result<()> {
        const ATTRIBUTES: u32 = bytes_tag(1);
        const DROPPED: u32 = varint_tag(2);
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                ATTRIBUTES => self.attributes.push(read_attribute(reader.bytes()?)?),
                DROPPED => reader.skip(DROPPED)?,
                other => reader.skip_unknown(other, known(&[1, 2]))?,
            }
        }
        Ok(())
    }

    fn text_of(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(attribute) = self.attributes.iter().find(|a| a.key == key) else {
            return Ok(None);
        };
        let mut text = Vec::new();
        push_text(attribute.value, &mut text)?;
        Ok(Some(text))
    }

    /// `job` and `instance`, as far as the resource has them.
    fn identity(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let mut labels = Vec::new();
        if let Some(name) = self.text_of(SERVICE_NAME)? {
            let job = match self.text_of(SERVICE_NAMESPACE)? {
                Some(namespace) => [&namespace[..], b"/", &name].concat(),
                None => name,
            };
            labels.push(("job", job));
        }
        if let Some(instance) = self.text_of(SERVICE_INSTANCE)? {
            labels.push(("instance", instance));
        }
        Ok(labels)
    }

    /// The attributes that are promoted to labels of every series.
    fn promoted(&self, translation: &Translation) -> Vec<Attribute<'a>> {
        let is_promoted =
            |a: &&Attribute<'a>| str::from_utf8(a.key).is_ok_and(|key| translation.promotes(key));
        let mut promoted: Vec<_> = self
            .attributes
            .iter()
            .filter(is_promoted)
            .copied()
            .collect();
        promoted.sort_by_key(|a| a.key);
        promoted
    }
}

impl<'a> Scope<'a> {
    pub(super) fn clear(&mut self) {
        self.name = &[];
        self.version = &[];
        self.schema_url = &[];
        self.attributes.clear();
        self.prepared = false;
    }

    pub(super) fn read(&mut self, message: &'a [u8]) -> Result<()> {
        const NAME: u32 = bytes_tag(1);
        const VERSION: u32 = bytes_tag(2);
        const ATTRIBUTES: u32 = bytes_tag(3);
        const DROPPED: u32 = varint_tag(4);
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                NAME => self.name = reader.bytes()?,
                VERSION => self.version = reader.bytes()?,
                ATTRIBUTES => self.attributes.push(read_attribute(reader.bytes()?)?),
                DROPPED => reader.skip(DROPPED)?,
                other => reader.skip_unknown(other, known(&[1, 2, 3, 4]))?,
            }
        }
        Ok(())
    }
}

/// The labels that every series under the scope has, sorted by name. The inner error is why its
/// points are refused.
fn base_labels(
    translation: &Translation,
    resource: &Resource<'_>,
    scope: &Scope<'_>,
) -> Result<std::result::Result<Vec<BaseLabel>, String>> {
    let mut labels: BTreeMap<String, (Vec<u8>, bool)> = BTreeMap::new();
    let name_and_text = |key: &[u8], value: &[u8]| -> Result<std::result::Result<_, String>> {
        let name = match label_name(translation, key) {
            Ok(name) => name,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut text = Vec::new();
        if push_text(value, &mut text)? {
            Ok(Ok((name, text)))
        } else {
            Ok(Err(format!("attribute {name} is nested too deep")))
        }
    };
    for attribute in resource.promoted(translation) {
        match name_and_text(attribute.key, attribute.value)? {
            Ok((name, text)) => drop(labels.entry(name).or_insert((text, false))),
            Err(reason) => return Ok(Err(format!("resource: {reason}"))),
        }
    }
    if translation.promote_scope_metadata && !scope.name.is_empty() {
        for (name, text) in [
            ("otel_scope_name", scope.name),
            ("otel_scope_version", scope.version),
            ("otel_scope_schema_url", scope.schema_url),
        ] {
            labels.insert(name.into(), (text.into(), true));
        }
        for attribute in &scope.attributes {
            let key = [b"otel_scope_", attribute.key].concat();
            match name_and_text(&key, attribute.value)? {
                Ok((name, text)) => drop(labels.insert(name, (text, true))),
                Err(reason) => return Ok(Err(format!("scope: {reason}"))),
            }
        }
    }
    for (name, text) in resource.identity()? {
        labels.insert(name.into(), (text, true));
    }
    let labels = labels
        .into_iter()
        .map(|(name, (value, overrides))| BaseLabel {
            name,
            value,
            overrides,
        });
    Ok(Ok(labels.collect()))
}

impl<S: SampleSink> Decoder<'_, '_, S> {
    /// Computes the labels of the current scope when its first point needs them.
    #[inline]
    pub(super) fn prepare_base(&mut self) -> Result<()> {
        if self.scope.prepared {
            return Ok(());
        }
        self.scope.prepared = true;
        // A scope of a few bytes can repeat many labels: they count, too.
        let attributes = self
            .resource
            .attributes
            .iter()
            .chain(&self.scope.attributes);
        let bytes = attributes.map(|a| a.key.len() + a.value.len() + 8).sum();
        let base = match self.labels.spend(bytes) {
            Ok(()) => base_labels(self.translation, &self.resource, &self.scope)?,
            Err(reason) => Err(reason),
        };
        self.labels.set_base(base);
        Ok(())
    }

    /// Writes `target_info` at the time of the resource's latest point.
    pub(super) fn put_target_info(&mut self) -> Result<()> {
        let identifying = [SERVICE_NAMESPACE, SERVICE_NAME, SERVICE_INSTANCE];
        let is_identifying = |a: &Attribute<'_>| identifying.contains(&a.key);
        let identity = self.resource.identity()?;
        // Without a job or an instance nothing could be joined with it, and with nothing else it
        // would say nothing.
        if self.latest_ns == 0
            || identity.is_empty()
            || self.resource.attributes.iter().all(is_identifying)
        {
            return Ok(());
        }
        let keep = self.translation.keep_identifying_resource_attributes;
        let wanted = |a: &&Attribute<'_>| keep || !is_identifying(a);
        let attributes: Vec<_> = self
            .resource
            .attributes
            .iter()
            .filter(wanted)
            .copied()
            .collect();
        let identity = identity.into_iter().map(|(name, value)| BaseLabel {
            name: name.into(),
            value,
            overrides: true,
        });
        let mut identity: Vec<_> = identity.collect();
        identity.sort_by(|a, b| a.name.cmp(&b.name));
        self.labels.set_base(Ok(identity));
        let mut name = Vec::new();
        push_label(&mut name, b"__name__", TARGET_INFO.as_bytes());
        let announced = match self.labels.set_point(self.translation, &attributes)? {
            Ok(()) => self.labels.announce(self.sink, &name, None),
            Err(reason) => Err(reason),
        };
        if let Err(reason) = announced {
            self.sink.reject(format!("{TARGET_INFO}: {reason}"));
            return Ok(());
        }
        self.sink.sample(Sample {
            timestamp_ms: to_ms(self.latest_ns),
            value: 1.0,
            start_timestamp_ms: 0,
        });
        if !self.target_info_described {
            self.target_info_described = true;
            let metadata = Metadata {
                metric_type: MetricType::Gauge,
                help: "Target metadata".into(),
                ..Metadata::default()
            };
            self.sink.metadata(TARGET_INFO, metadata);
        }
        Ok(())
    }
}
