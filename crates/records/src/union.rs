//! The union of two lists sorted by time, in which the newer list wins.

/// Merges two strictly increasing lists; of equal keys the element of `new` stays.
pub(crate) fn newest_wins<T>(old: Vec<T>, new: Vec<T>, key: impl Fn(&T) -> i64) -> Vec<T> {
    let mut all = Vec::with_capacity(old.len() + new.len());
    let mut old = old.into_iter().peekable();
    for item in new {
        while let Some(earlier) = old.next_if(|other| key(other) < key(&item)) {
            all.push(earlier);
        }
        old.next_if(|other| key(other) == key(&item));
        all.push(item);
    }
    all.extend(old);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_keep_the_newer_element() {
        let old = vec![(1, 'a'), (2, 'a'), (4, 'a')];
        let new = vec![(0, 'b'), (2, 'b'), (3, 'b'), (5, 'b')];
        let all = newest_wins(old, new, |item| item.0);
        assert_eq!(
            all,
            [(0, 'b'), (1, 'a'), (2, 'b'), (3, 'b'), (4, 'a'), (5, 'b')]
        );
    }
}
