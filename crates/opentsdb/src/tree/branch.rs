//! Branches and leaves.

use std::collections::BTreeMap;

use icecore_model::CatalogChange;

use crate::catalog;
use crate::catalog_key;
use crate::java::string_hash;
use crate::json::{Json, push_text};
use crate::json_object::{ObjectWriter, push_array};
use crate::record_field::text;

/// The name of the branch that all others are below.
pub(crate) const ROOT: &str = "ROOT";

/// Bytes of a tree's id, and of each name in a branch id.
const TREE_BYTES: usize = 2;
const HASH_BYTES: usize = 4;

/// The tree, and the hashes of the names below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BranchId {
    pub(crate) tree: u16,
    pub(crate) hashes: Vec<u8>,
}

impl BranchId {
    pub(crate) fn of(tree: u16, path: &[String]) -> Self {
        let hashes = path.iter().flat_map(|name| string_hash(name).to_be_bytes());
        Self {
            tree,
            hashes: hashes.collect(),
        }
    }

    pub(crate) fn to_hex(&self) -> String {
        let tree = hex::encode_upper(self.tree.to_be_bytes());
        tree + &hex::encode_upper(&self.hashes)
    }

    /// `None` where it is no id.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let bytes = hex::decode(text).ok()?;
        let (tree, hashes) = bytes.split_at_checked(TREE_BYTES)?;
        let tree = u16::from_be_bytes(tree.try_into().ok()?);
        (hashes.len() % HASH_BYTES == 0).then(|| Self {
            tree,
            hashes: hashes.to_vec(),
        })
    }
}

/// A branch with what is right below it, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) tree: u16,
    /// Names below the root.
    pub(crate) path: Vec<String>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) leaves: Vec<Leaf>,
}

/// A series in a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) display_name: String,
    /// Hexadecimal.
    pub(crate) tsuid: String,
    /// Metric and tags, where they are shown.
    pub(crate) series: Option<(String, BTreeMap<String, String>)>,
}

impl Branch {
    pub(crate) fn new(tree: u16, path: Vec<String>) -> Self {
        Self {
            tree,
            path,
            branches: Vec::new(),
            leaves: Vec::new(),
        }
    }

    /// The root with one branch below another, down to a leaf at the end of the path.
    pub(crate) fn with_leaf(tree: u16, path: &[String], tsuid: &str) -> Self {
        let mut root = Self::new(tree, Vec::new());
        let Some((leaf, branches)) = path.split_last() else {
            return root;
        };
        let mut branch = &mut root;
        for depth in 1..=branches.len() {
            let child = Self::new(tree, branches[..depth].to_vec());
            let children = &mut branch.branches;
            children.push(child);
            branch = &mut children[0];
        }
        branch.leaves.push(Leaf::new(leaf, tsuid));
        root
    }

    pub(crate) fn display_name(&self) -> &str {
        self.path.last().map_or(ROOT, String::as_str)
    }

    /// In the order in which they are shown.
    pub(crate) fn sort(&mut self) {
        self.branches
            .sort_by_cached_key(|branch| sort_key(branch.display_name()));
        self.leaves
            .sort_by_cached_key(|leaf| sort_key(&leaf.display_name));
    }

    pub(crate) fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        let leaves = object.member("leaves");
        if self.leaves.is_empty() {
            leaves.push_str("null");
        } else {
            push_array(leaves, &self.leaves, |out, leaf| leaf.write(out));
        }
        let branches = object.member("branches");
        if self.branches.is_empty() {
            branches.push_str("null");
        } else {
            push_array(branches, &self.branches, |out, branch| branch.write(out));
        }
        self.write_path(&mut object);
        object.text("displayName", self.display_name());
        object.plain("treeId", self.tree);
        object.text("branchId", &BranchId::of(self.tree, &self.path).to_hex());
        object.plain("depth", self.path.len());
    }

    /// The names from the root on, by their depths.
    pub(crate) fn write_path(&self, object: &mut ObjectWriter<'_>) {
        let mut path = ObjectWriter::new(object.member("path"));
        path.text("0", ROOT);
        for (depth, name) in self.path.iter().enumerate() {
            path.text(&(depth + 1).to_string(), name);
        }
    }

    pub(crate) fn stored(&self) -> CatalogChange {
        let mut json = String::new();
        let mut object = ObjectWriter::new(&mut json);
        push_array(object.member("path"), &self.path, |out, name| {
            push_text(out, name)
        });
        drop(object);
        let id = BranchId::of(self.tree, &self.path);
        catalog::stored(catalog_key::branch(self.tree, &id.hashes), &json)
    }

    pub(crate) fn decode(tree: u16, value: &[u8]) -> Option<Self> {
        let json = Json::parse(catalog::json_of(value)?).ok()?;
        let path = json.get("path")?.as_array()?.iter().map(|name| match name {
            Json::Text(name) => Some(name.clone().into_owned()),
            _ => None,
        });
        Some(Self::new(tree, path.collect::<Option<_>>()?))
    }
}

fn sort_key(name: &str) -> (String, String) {
    (name.to_lowercase(), name.to_owned())
}

impl Leaf {
    pub(crate) fn new(display_name: &str, tsuid: &str) -> Self {
        Self {
            display_name: display_name.to_owned(),
            tsuid: tsuid.to_owned(),
            series: None,
        }
    }

    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        let metric = self.series.as_ref().map(|(metric, _)| metric.as_str());
        object.text("metric", metric.unwrap_or_default());
        object.map("tags", self.series.as_ref().map(|(_, tags)| tags));
        object.text("tsuid", &self.tsuid);
        object.text("displayName", &self.display_name);
    }

    pub(crate) fn stored(&self, key: Vec<u8>) -> CatalogChange {
        let mut json = String::new();
        let mut object = ObjectWriter::new(&mut json);
        object.text("displayName", &self.display_name);
        object.text("tsuid", &self.tsuid);
        drop(object);
        catalog::stored(key, &json)
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let json = Json::parse(catalog::json_of(value)?).ok()?;
        Some(Self::new(
            &text(&json, "displayName")?,
            &text(&json, "tsuid")?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(path: &[&str]) -> String {
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        BranchId::of(1, &path).to_hex()
    }

    #[test]
    fn ids_are_hashes_of_names() {
        for (path, expected) in [
            (&[][..], "0001"),
            (&["sys"], "00010001BECD"),
            (&["sys", "cpu"], "00010001BECD000181A8"),
            (&["dal", "web01", "myapp"], "00010001838F06BC4C5506387CF5"),
            (
                &["lga", "web", "web-01.lga.mysite.com", "sys", "cpu", "0"],
                "00010001A2460001CB54247F72020001BECD000181A800000030",
            ),
        ] {
            assert_eq!(id(path), expected);
            assert_eq!(BranchId::from_hex(expected).unwrap().to_hex(), expected);
        }
        for (name, hash) in [
            ("user", "0036EBCB"),
            ("bytes_sent", "530152EC"),
            ("John Doe", "AE805CA5"),
            ("sys.cpu.0", "CBBF5B09"),
        ] {
            assert_eq!(id(&[name]), format!("0001{hash}"));
        }
        for broken in ["", "00", "zz", "0001FF", "000100000000F"] {
            assert_eq!(BranchId::from_hex(broken), None, "{broken}");
        }
    }

    #[test]
    fn branches_are_shown_with_what_is_below() {
        let path = ["sys".to_owned(), "user".to_owned()];
        let root = Branch::with_leaf(1, &path, "000001000001000001");
        let mut out = String::new();
        root.write(&mut out);
        let expected = r#"{"leaves":null,"branches":[{"leaves":[{"metric":"","tags":null,"tsuid":"000001000001000001","displayName":"user"}],"branches":null,"path":{"0":"ROOT","1":"sys"},"displayName":"sys","treeId":1,"branchId":"00010001BECD","depth":1}],"path":{"0":"ROOT"},"displayName":"ROOT","treeId":1,"branchId":"0001","depth":0}"#;
        assert_eq!(out, expected);
    }

    proptest! {
        #[test]
        fn records_are_read_as_written_and_never_in_part(
            path in prop::collection::vec(any::<String>(), 0..4),
            tsuid in any::<String>(),
        ) {
            let branch = Branch::new(1, path);
            let value = branch.stored().value.unwrap();
            let leaf = Leaf::new(branch.display_name(), &tsuid);
            let leaf_value = leaf.stored(Vec::new()).value.unwrap();
            prop_assert_eq!(Branch::decode(1, &value), Some(branch));
            prop_assert_eq!(Leaf::decode(&leaf_value), Some(leaf));
            for end in 0..value.len() {
                prop_assert_eq!(Branch::decode(1, &value[..end]), None);
            }
            for end in 0..leaf_value.len() {
                prop_assert_eq!(Leaf::decode(&leaf_value[..end]), None);
            }
        }
    }
}
