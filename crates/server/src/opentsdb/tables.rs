//! Parameters that say how the original's tables are laid out.

use icecore_opentsdb::hbase::Salt;
use icecore_opentsdb::transfer::{TableLayout, TableNames};

use crate::middleware::error::ApiError;
use crate::middleware::params::Params;

/// Bytes of a UID.
const UID_WIDTH_MAX: usize = 8;

/// The tables that parameters describe; `widths` are those of this server.
pub(super) fn layout(params: &Params, widths: [usize; 3]) -> Result<TableLayout, ApiError> {
    let defaults = TableNames::default();
    let name = |name: &str, default: String| params.first(name).map_or(default, str::to_owned);
    let count = |name: &str, default: u32| -> Result<u32, ApiError> {
        let given = params.number(name)?;
        let given = given.map(u32::try_from).transpose();
        let given = given.map_err(|_| ApiError::of_parameter(name, "out of range"))?;
        Ok(given.unwrap_or(default))
    };
    let salt_width = count("salt_width", 0)?;
    let salt = Salt::new(salt_width as usize, count("salt_buckets", Salt::BUCKETS)?);
    let wrong_salt = || ApiError::of_parameter("salt_width", "at most 8, and at least 1 bucket");
    Ok(TableLayout {
        names: TableNames {
            data: name("data_table", defaults.data),
            uid: name("uid_table", defaults.uid),
            meta: name("meta_table", defaults.meta),
            tree: name("tree_table", defaults.tree),
        },
        widths: match params.first("uid_widths") {
            None => widths,
            Some(text) => uid_widths(text).ok_or_else(|| {
                let problem = "expected three numbers from 1 to 8, as in 3,3,3";
                ApiError::of_parameter("uid_widths", problem)
            })?,
        },
        salt: salt.ok_or_else(wrong_salt)?,
    })
}

fn uid_widths(text: &str) -> Option<[usize; 3]> {
    let width = |text: &str| {
        let width = text.trim().parse().ok();
        width.filter(|width| (1..=UID_WIDTH_MAX).contains(width))
    };
    let widths: Option<Vec<usize>> = text.split(',').map(width).collect();
    widths?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_three_numbers() {
        assert_eq!(uid_widths("3,4, 8"), Some([3, 4, 8]));
        for wrong in ["", "3", "3,3", "3,3,9", "0,3,3", "3,3,3,3", "a,b,c"] {
            assert_eq!(uid_widths(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_given_is_as_the_original_has_it() {
        let params = |query: &str| {
            let uri = format!("/?{query}").parse();
            Params::of_url(&uri.unwrap_or_default())
        };
        let defaults = layout(&params(""), [3; 3]).map_err(|_| ());
        let defaults = defaults.expect("nothing is wrong");
        assert_eq!(defaults.names, TableNames::default());
        assert_eq!((defaults.widths, defaults.salt.width()), ([3; 3], 0));
        let given = layout(&params("uid_table=u&uid_widths=4,4,4&salt_width=1"), [3; 3]);
        let given = given.map_err(|_| ()).expect("nothing is wrong");
        assert_eq!((given.names.uid.as_str(), given.widths), ("u", [4; 3]));
        assert_eq!((given.salt.width(), given.salt.buckets()), (1, 20));
        for wrong in [
            "salt_width=9",
            "salt_width=1&salt_buckets=0",
            "uid_widths=3",
            "salt_width=-1",
        ] {
            assert!(layout(&params(wrong), [3; 3]).is_err(), "{wrong}");
        }
    }
}
