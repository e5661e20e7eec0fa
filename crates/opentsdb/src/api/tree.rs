//! `/api/tree`: definitions of trees, what they have grown, and what they would.

use std::collections::BTreeMap;

use http::Method;

use super::fields::Fields;
use super::series_meta::{parse_tsuid, push_meta};
use super::tree_rule;
use crate::allowance::Allowance;
use crate::catalog::{self, check_texts, removed};
use crate::catalog_key;
use crate::error::Error;
use crate::json::push_text;
use crate::json_object::{ObjectWriter, push_array, push_map};
use crate::meta::hook::tree_series;
use crate::meta::{SeriesMeta, sync_tree};
use crate::request::Request;
use crate::response::Response;
use crate::series::SeriesName;
use crate::tree::{Branch, BranchId, Leaf, Tree, TreeEdit, build};
use crate::tsd::Tsd;
use crate::uid::{Tsuid, no_such_id};

/// What follows `/api/tree`.
pub(super) async fn route(tsd: &Tsd, request: &Request, parts: &[&str]) -> Result<Response, Error> {
    let verb = request.verb()?;
    match parts {
        [] | [""] => definition(tsd, request, &verb).await,
        ["branch", ..] => branch(tsd, request, &verb).await,
        ["rule", ..] => tree_rule::one(tsd, request, &verb).await,
        ["rules", ..] => tree_rule::many(tsd, request, &verb).await,
        ["test", ..] => test(tsd, request, &verb).await,
        ["sync", ..] => sync(tsd, request, &verb).await,
        ["collisions", ..] => failures(tsd, request, &verb, true).await,
        ["notmatched", ..] => failures(tsd, request, &verb, false).await,
        _ => Err(Error::not_found("This endpoint is not supported")),
    }
}

/// What is said of a verb that an endpoint of trees has no use for.
pub(super) fn unsupported() -> Error {
    Error::bad_request("Unsupported HTTP request method")
}

fn invalid_id() -> Error {
    let message = "Invalid Tree ID";
    Error::bad_request(message).with_details(message)
}

/// The id that a request names; 0 where it names none.
fn parse_id(fields: &Fields<'_>) -> Result<i64, Error> {
    let id = fields.text("treeId", "treeid")?;
    let id = id.map(|id| {
        id.parse().map_err(|_| {
            let details = format!("For input string: \"{id}\"");
            Error::bad_request("Unable to parse 'tree' value").with_details(details)
        })
    });
    Ok(id.transpose()?.unwrap_or(0))
}

/// The tree of an id that must be one.
pub(super) fn find(tsd: &Tsd, id: i64) -> Result<std::sync::Arc<Tree>, Error> {
    let valid = u16::try_from(id).ok().filter(|id| *id > 0);
    let tree = tsd.trees.get(valid.ok_or_else(invalid_id)?);
    tree.ok_or_else(|| Error::not_found(format!("Unable to locate tree: {id}")))
}

async fn definition(tsd: &Tsd, request: &Request, verb: &Method) -> Result<Response, Error> {
    match *verb {
        Method::GET => {
            let mut out = String::new();
            match parse_id(&Fields::Parameters(request))? {
                0 => push_array(&mut out, tsd.trees.all(), |out, tree| tree.write(out)),
                id => find(tsd, id)?.write(&mut out),
            }
            Ok(Response::json(out))
        }
        Method::POST => edit(tsd, request, false).await,
        Method::PUT => edit(tsd, request, true).await,
        Method::DELETE => delete(tsd, request).await,
        _ => Err(unsupported()),
    }
}

async fn edit(tsd: &Tsd, request: &Request, replaces: bool) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    if let Fields::Body(body) = &fields
        && body.get("rules").is_some()
    {
        return Err(super::body::unparsable(
            "rules have an endpoint of their own",
        ));
    }
    let id = parse_id(&fields)?;
    let edit = TreeEdit {
        name: fields.filled("name", "name")?,
        description: fields.filled("description", "description")?,
        notes: fields.filled("notes", "notes")?,
        strict_match: fields.boolean("strictMatch", "strict_match")?,
        enabled: fields.boolean("enabled", "enabled")?,
        store_failures: fields.boolean("storeFailures", "store_failures")?,
    };
    let texts = [&edit.name, &edit.description, &edit.notes];
    check_texts(texts.into_iter().flatten().map(String::as_str))?;
    let records = tsd.records.lock().await;
    let mut tree = if id > 0 {
        let tree = find(tsd, id)?;
        if edit.is_empty() {
            return Ok(Response::unchanged());
        }
        Tree::clone(&tree)
    } else {
        if edit.name.is_none() {
            let message = "Tree was missing the name";
            return Err(Error::bad_request(message).with_details(message));
        }
        let next = tsd.trees.next_id();
        // The original notes the time only of trees that an address describes.
        let is_dated = matches!(fields, Fields::Parameters(_));
        Tree {
            id: next.ok_or_else(|| Error::bad_request("Exhausted all Tree IDs"))?,
            created: if is_dated {
                tsd.clock.now_ms().div_euclid(1000)
            } else {
                0
            },
            ..Tree::default()
        }
    };
    tree.edit(edit, replaces);
    let mut out = String::new();
    tree.write(&mut out);
    let stored = tree.stored();
    let put = || tsd.trees.put(tree);
    records.write_and(vec![stored], put).await?;
    Ok(Response::json(out))
}

async fn delete(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let fields = Fields::of(request)?;
    let id = parse_id(&fields)?;
    let with_definition = fields.boolean("definition", "definition")?.unwrap_or(false);
    let records = tsd.records.lock().await;
    let tree = find(tsd, id)?;
    let mut changes = Vec::new();
    for keys in catalog_key::tree_contents(tree.id) {
        let contents = tsd.records.keys(keys, &request.allowance).await?;
        changes.extend(contents.into_iter().map(removed));
    }
    if with_definition {
        changes.push(removed(catalog_key::tree(tree.id)));
    }
    let forget = || {
        if with_definition {
            tsd.trees.remove(tree.id);
        }
        tsd.trees.forget_branches();
    };
    records.write_and(changes, forget).await?;
    Ok(Response::done())
}

/// A branch with what is right below it.
async fn branch(tsd: &Tsd, request: &Request, verb: &Method) -> Result<Response, Error> {
    if *verb != Method::GET {
        return Err(unsupported());
    }
    let named = request.param("branch").filter(|id| !id.is_empty());
    let id = match named {
        Some(id) if id.len() < 4 => {
            let message = "Branch ID was too short";
            return Err(Error::bad_request(message).with_details(message));
        }
        Some(id) => BranchId::from_hex(id).filter(|id| id.tree > 0),
        None => {
            let tree = parse_id(&Fields::Parameters(request))?;
            let tree = u16::try_from(tree).ok().filter(|tree| *tree > 0);
            tree.map(|tree| BranchId::of(tree, &[]))
        }
    };
    let id = id.ok_or_else(|| Error::bad_request("Missing or invalid branch and tree IDs"))?;
    let key = catalog_key::branch(id.tree, &id.hashes);
    let Some(value) = tsd.records.get(&key).await? else {
        let (branch, tree) = (id.to_hex(), id.tree);
        let message = format!("Unable to locate branch '{branch}' for tree '{tree}'");
        return Err(Error::not_found(message));
    };
    let unreadable = |what, key: &[u8]| catalog::failed(catalog_key::unreadable(what, key));
    let branch = Branch::decode(id.tree, &value);
    let mut branch = branch.ok_or_else(|| unreadable("a branch", &key))?;
    let children = catalog_key::child_branches(id.tree, &id.hashes);
    for (key, value) in tsd.records.all(children, &request.allowance).await? {
        let child = Branch::decode(id.tree, &value);
        branch
            .branches
            .push(child.ok_or_else(|| unreadable("a branch", &key))?);
    }
    let leaves = catalog_key::leaves(id.tree, &id.hashes);
    for (key, value) in tsd.records.all(leaves, &request.allowance).await? {
        let mut leaf = Leaf::decode(&value).ok_or_else(|| unreadable("a leaf", &key))?;
        let tsuid = Tsuid::from_hex(&leaf.tsuid, tsd.config.uid_widths);
        let series = tsuid.and_then(|tsuid| SeriesName::of_tsuid(&tsuid, &tsd.uids).ok());
        leaf.series = series.map(|series| (series.metric, series.tags));
        branch.leaves.push(leaf);
    }
    branch.sort();
    let mut out = String::new();
    branch.write(&mut out);
    Ok(Response::json(out))
}

/// Adds series to a tree that were there before it. The original has no endpoint for it.
async fn sync(tsd: &Tsd, request: &Request, verb: &Method) -> Result<Response, Error> {
    if *verb != Method::POST {
        return Err(unsupported());
    }
    let tree = find(tsd, parse_id(&Fields::of(request)?)?)?;
    if !tree.enabled {
        let message = format!("Tree {} is not enabled", tree.id);
        return Err(Error::bad_request(message));
    }
    let series = sync_tree(tsd, &request.allowance, tree.id).await?;
    Ok(Response::json(format!("{{\"series\":{series}}}")))
}

/// The tree and series that a test, or a question for failures, is about.
fn parse_question(
    tsd: &Tsd,
    request: &Request,
) -> Result<(std::sync::Arc<Tree>, Option<Vec<String>>), Error> {
    let fields = Fields::of(request)?;
    if let Fields::Parameters(request) = &fields {
        request.required("treeid")?;
    }
    let tree = find(tsd, parse_id(&fields)?)?;
    Ok((tree, fields.list("tsuids", "tsuids")?))
}

/// Where series would go in a tree.
async fn test(tsd: &Tsd, request: &Request, verb: &Method) -> Result<Response, Error> {
    let (tree, tsuids) = parse_question(tsd, request)?;
    if ![Method::GET, Method::POST, Method::PUT].contains(verb) {
        return Err(unsupported());
    }
    let tsuids = tsuids.filter(|tsuids| !tsuids.is_empty());
    let tsuids = tsuids.ok_or_else(|| Error::bad_request("Missing or empty TSUID list"))?;
    let mut answers = BTreeMap::new();
    for text in tsuids {
        let tsuid = parse_tsuid(tsd, &text)?;
        let answer = test_one(tsd, &request.allowance, &tree, &tsuid).await?;
        answers.insert(text, answer);
    }
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    for (tsuid, answer) in &answers {
        object.member(tsuid).push_str(answer);
    }
    drop(object);
    Ok(Response::json(out))
}

async fn test_one(
    tsd: &Tsd,
    allowance: &Allowance,
    tree: &Tree,
    tsuid: &Tsuid,
) -> Result<String, Error> {
    let widths = tsd.config.uid_widths;
    let Some(meta) = SeriesMeta::get(&tsd.records, tsuid, widths).await? else {
        return Ok(test_answer(
            None,
            None,
            &["Unable to locate TSUID meta data".into()],
        ));
    };
    let series = match tree_series(tsd, tsuid).await? {
        Ok(series) => series,
        Err((kind, uid)) => {
            let missing = no_such_id(kind, uid, widths[kind as usize]);
            let message = format!("TSUID was missing a UID name: {missing}");
            return Ok(test_answer(None, None, &[message]));
        }
    };
    let mut shown_meta = String::new();
    push_meta(tsd, allowance, &meta, &mut shown_meta).await?;
    let built = build(tree, &series);
    let branch = if built.is_left_out(tree) {
        Branch::new(tree.id, Vec::new())
    } else {
        Branch::with_leaf(tree.id, &built.path, &series.tsuid)
    };
    Ok(test_answer(
        Some(&shown_meta),
        Some(&branch),
        &built.messages,
    ))
}

fn test_answer(meta: Option<&str>, branch: Option<&Branch>, messages: &[String]) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.member("meta").push_str(meta.unwrap_or("null"));
    push_array(object.member("messages"), messages, |out, message| {
        push_text(out, message)
    });
    let shown = object.member("branch");
    match branch {
        None => shown.push_str("null"),
        Some(branch) => branch.write(shown),
    }
    drop(object);
    out
}

/// Series that are not in a tree because of a collision, or because they did not match.
async fn failures(
    tsd: &Tsd,
    request: &Request,
    verb: &Method,
    are_collisions: bool,
) -> Result<Response, Error> {
    let (tree, tsuids) = parse_question(tsd, request)?;
    if ![Method::GET, Method::POST, Method::PUT].contains(verb) {
        return Err(unsupported());
    }
    let keys = if are_collisions {
        catalog_key::collisions(tree.id)
    } else {
        catalog_key::not_matched_series(tree.id)
    };
    let mut found = BTreeMap::new();
    for (key, value) in tsd.records.all(keys, &request.allowance).await? {
        let tsuid = catalog_key::parse_tree_series(&key).map(hex::encode_upper);
        let tsuid = tsuid.unwrap_or_default();
        let is_asked = |asked: &Vec<String>| asked.iter().any(|t| t.eq_ignore_ascii_case(&tsuid));
        if tsuids.as_ref().is_none_or(is_asked) {
            found.insert(tsuid, String::from_utf8_lossy(&value).into_owned());
        }
    }
    let mut out = String::new();
    push_map(&mut out, &found);
    Ok(Response::json(out))
}
