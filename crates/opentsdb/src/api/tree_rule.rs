//! `/api/tree/rule` and `/api/tree/rules`

use http::Method;

use super::body::{required_json, unparsable};
use super::fields::Fields;
use super::tree::{find, unsupported};
use crate::catalog::{RecordsEdit, check_texts};
use crate::error::Error;
use crate::java::bytes_text;
use crate::request::Request;
use crate::response::Response;
use crate::tree::{RuleEdit, RuleType, Tree};
use crate::tsd::Tsd;

/// Where a rule is: tree, level, order.
type RulePlace = (i64, u32, u32);

/// `/api/tree/rule`
pub(super) async fn one(tsd: &Tsd, request: &Request, verb: &Method) -> Result<Response, Error> {
    let fields = match *verb {
        Method::GET => Fields::Parameters(request),
        _ => Fields::of(request)?,
    };
    let place = parse_place(&fields)?;
    let (id, level, order) = place;
    match *verb {
        Method::GET => {
            let tree = find(tsd, id)?;
            let edit = parse_edit(&fields)?;
            shown(&tree, level, order).ok_or_else(|| missing(place, &edit))
        }
        Method::POST | Method::PUT => {
            let records = tsd.records.lock().await;
            let mut tree = Tree::clone(&*find(tsd, id)?);
            let edit = parse_edit(&fields)?;
            if !changes(place, &edit) {
                return Ok(Response::unchanged());
            }
            let replaces = *verb == Method::PUT;
            let before = shown(&tree, level, order).filter(|_| !replaces);
            let lost = missing(place, &edit);
            put(&mut tree, place, edit, replaces)?;
            let response = shown(&tree, level, order).ok_or(lost)?;
            if before.as_ref() == Some(&response) {
                return Ok(Response::unchanged());
            }
            store(tsd, records, tree).await?;
            Ok(response)
        }
        Method::DELETE => {
            let records = tsd.records.lock().await;
            let mut tree = Tree::clone(&*find(tsd, id)?);
            let edit = parse_edit(&fields)?;
            tree.rule(level, order)
                .ok_or_else(|| missing(place, &edit))?;
            tree.remove_rule(level, order);
            store(tsd, records, tree).await?;
            Ok(Response::done())
        }
        _ => Err(unsupported()),
    }
}

/// Returns `true` if a request says something of a rule besides the tree that has it. A level and
/// an order other than 0 do, as in the original.
fn changes((_, level, order): RulePlace, edit: &RuleEdit) -> bool {
    level != 0 || order != 0 || !edit.is_empty()
}

/// A rule that is not there, by what the request calls it.
fn missing((id, level, order): RulePlace, edit: &RuleEdit) -> Error {
    let kind = edit.kind.map_or("null", RuleType::name);
    Error::not_found(format!(
        "Unable to locate rule: [{id}:{level}:{order}:{kind}]"
    ))
}

/// Deletes all rules of a tree. Without any, the original fails.
fn delete_all(tree: &mut Tree) -> Result<(), Error> {
    if tree.rules.is_empty() {
        let row = bytes_text(&tree.id.to_be_bytes());
        return Err(invalid(format!(
            "Don't pass an empty list of qualifiers, this would delete the entire row of \
             table=\"tsdb-tree\" at key {row}"
        )));
    }
    tree.rules.clear();
    Ok(())
}

/// An argument that the original refuses.
fn invalid(message: String) -> Error {
    Error::bad_request(message.clone()).with_details(message)
}

/// `/api/tree/rules`
pub(super) async fn many(tsd: &Tsd, request: &Request, verb: &Method) -> Result<Response, Error> {
    let replaces = match *verb {
        Method::POST => false,
        Method::PUT => true,
        Method::DELETE => {
            let id = parse_tree(&Fields::of(request)?)?;
            let records = tsd.records.lock().await;
            let mut tree = Tree::clone(&*find(tsd, id)?);
            delete_all(&mut tree)?;
            store(tsd, records, tree).await?;
            return Ok(Response::done());
        }
        _ => {
            let id = Fields::Parameters(request).number("treeId", "treeid")?;
            find(tsd, id.unwrap_or(0))?;
            return Err(unsupported());
        }
    };
    let body = required_json(request)?;
    let rules = body.as_array();
    let rules = rules.ok_or_else(|| unparsable("a list of rules is expected"))?;
    let mut edits = Vec::new();
    for rule in rules {
        let fields = Fields::of_json(rule.clone())?;
        edits.push((parse_place(&fields)?, parse_edit(&fields)?));
    }
    let first = edits.first().map(|((id, ..), _)| *id);
    let id = first.ok_or_else(|| Error::bad_request("Missing tree rules"))?;
    if edits.iter().any(|((other, ..), _)| *other != id) {
        let message = "All rules must belong to the same tree";
        return Err(Error::bad_request(message));
    }
    let records = tsd.records.lock().await;
    let mut tree = Tree::clone(&*find(tsd, id)?);
    if replaces {
        delete_all(&mut tree)?;
    }
    for (place, edit) in edits {
        if changes(place, &edit) {
            put(&mut tree, place, edit, replaces)?;
        }
    }
    store(tsd, records, tree).await?;
    Ok(Response::done())
}

fn parse_tree(fields: &Fields<'_>) -> Result<i64, Error> {
    if let Fields::Parameters(request) = fields {
        request.required("treeid")?;
    }
    Ok(fields.number("treeId", "treeid")?.unwrap_or(0))
}

fn parse_place(fields: &Fields<'_>) -> Result<RulePlace, Error> {
    let id = parse_tree(fields)?;
    if let Fields::Parameters(request) = fields {
        request.required("level")?;
        request.required("order")?;
    }
    let level = fields.number("level", "level")?.unwrap_or(0);
    let order = fields.number("order", "order")?.unwrap_or(0);
    Ok((id, level, order))
}

fn parse_edit(fields: &Fields<'_>) -> Result<RuleEdit, Error> {
    let kind = fields.text("type", "type")?.map(|kind| {
        RuleType::parse(&kind).ok_or_else(|| match fields {
            Fields::Parameters(_) => unknown_type(&kind),
            Fields::Body(_) => Error::bad_request(format!("Invalid rule type: {kind}")),
        })
    });
    let edit = RuleEdit {
        kind: kind.transpose()?,
        field: fields.filled("field", "field")?,
        custom_field: fields.filled("customField", "custom_field")?,
        regex: fields.filled("regex", "regex")?,
        regex_group: fields
            .number("regexGroupIdx", "regex_group_idx")?
            .filter(|n| *n != 0),
        separator: fields.filled("separator", "separator")?,
        display_format: fields.filled("displayFormat", "display_format")?,
        description: fields.filled("description", "description")?,
        notes: fields.filled("notes", "notes")?,
    };
    check_texts(edit.texts())?;
    Ok(edit)
}

/// A parameter that names no type of rules.
fn unknown_type(kind: &str) -> Error {
    let details = if kind.is_empty() {
        "Rule type was empty"
    } else {
        "Unrecognized rule type"
    };
    Error::bad_request("Unable to parse the 'type' parameter").with_details(details)
}

/// Adds or changes a rule; with `replaces` nothing of what it was stays.
fn put(tree: &mut Tree, place: RulePlace, edit: RuleEdit, replaces: bool) -> Result<(), Error> {
    let (_, level, order) = place;
    let before = tree.rule(level, order).filter(|_| !replaces);
    let rule = edit
        .apply((tree.id, level, order), before)
        .map_err(invalid)?;
    tree.put_rule(rule);
    Ok(())
}

async fn store(tsd: &Tsd, records: RecordsEdit<'_>, tree: Tree) -> Result<(), Error> {
    let checked = tsd.trees.check_rules(&tree, std::iter::empty());
    checked.map_err(Error::bad_request)?;
    let stored = tree.stored();
    let put = || tsd.trees.put(tree);
    records.write_and(vec![stored], put).await
}

fn shown(tree: &Tree, level: u32, order: u32) -> Option<Response> {
    let mut out = String::new();
    tree.rule(level, order)?.write(&mut out);
    Some(Response::json(out))
}
