//! One page of a long list: `limit`, `offset` and `order`.

use std::cmp::Ordering;

use crate::middleware::error::ApiError;
use crate::middleware::params::Params;

/// What a page has where nothing else is asked for.
const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    limit: usize,
    offset: usize,
    pub(crate) is_descending: bool,
}

impl Page {
    /// As the parameters say; `is_descending` where they do not say in which order.
    pub(crate) fn of(params: &Params, is_descending: bool) -> Result<Self, ApiError> {
        let number = |name: &str, default: usize| match params.first(name) {
            None => Ok(default),
            Some(text) => {
                let parsed = text.parse::<usize>();
                parsed.map_err(|_| ApiError::of_parameter(name, "a whole number is needed"))
            }
        };
        let limit = number("limit", LIMIT_DEFAULT)?;
        if !(1..=LIMIT_MAX).contains(&limit) {
            let problem = format!("it must lie between 1 and {LIMIT_MAX}");
            return Err(ApiError::of_parameter("limit", problem));
        }
        let is_descending = match params.first("order") {
            None => is_descending,
            Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(ApiError::of_parameter("order", "asc or desc")),
        };
        Ok(Self {
            limit,
            offset: number("offset", 0)?,
            is_descending,
        })
    }

    /// The items of the page. Only as much is sorted as it takes.
    pub(crate) fn cut<T>(
        &self,
        mut items: Vec<T>,
        mut compare: impl FnMut(&T, &T) -> Ordering,
    ) -> Vec<T> {
        let end = self.offset.saturating_add(self.limit).min(items.len());
        if end < items.len() {
            items.select_nth_unstable_by(end, &mut compare);
            items.truncate(end);
        }
        items.sort_unstable_by(compare);
        items.drain(..self.offset.min(end));
        items
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Uri;

    use super::*;

    fn page(query: &str) -> Result<Page, ApiError> {
        let uri: Uri = format!("/x?{query}").parse().unwrap();
        Page::of(&Params::of_url(&uri), true)
    }

    #[test]
    fn parameters() {
        let default = page("").unwrap();
        assert_eq!((default.limit, default.offset), (50, 0));
        assert!(default.is_descending && !page("order=asc").unwrap().is_descending);
        for wrong in ["limit=0", "limit=1001", "limit=x", "offset=-1", "order=up"] {
            assert!(page(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pages_are_parts_of_the_sorted_list() {
        let items = || {
            (0..100)
                .map(|number| number * 37 % 100)
                .collect::<Vec<u32>>()
        };
        let mut sorted = items();
        sorted.sort_unstable();
        for (query, part) in [
            ("limit=10", 0..10),
            ("limit=10&offset=95", 95..100),
            ("limit=1000", 0..100),
            ("limit=5&offset=100", 100..100),
            ("limit=5&offset=18446744073709551615", 100..100),
        ] {
            let cut = page(query).unwrap().cut(items(), Ord::cmp);
            assert_eq!(cut, sorted[part], "{query}");
        }
    }
}
