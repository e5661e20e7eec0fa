//! Records of the catalog: durable with the request that brings them, also when the process dies.

use std::collections::BTreeMap;
use std::convert::Infallible;

use icecore_model::{Catalog, CatalogChange, RawLabels, Sample, SampleSink};
use proptest::prelude::*;

use crate::process::{Process, World};
use crate::support::{T0, raw};

fn change(key: &[u8], value: Option<&[u8]>) -> CatalogChange {
    CatalogChange {
        key: key.to_vec(),
        value: value.map(<[u8]>::to_vec),
    }
}

fn write(process: &Process, changes: Vec<CatalogChange>) -> u64 {
    let fill = move |batch: &mut icecore_storage::WriteBatch<'_>| {
        changes.into_iter().for_each(|change| batch.catalog(change));
        Ok::<_, Infallible>(())
    };
    let outcome = process.run(process.db.write(fill)).unwrap();
    outcome.rejected_count()
}

fn read(process: &Process, from: &[u8], to: &[u8], limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let records = process.db.range(from.to_vec()..to.to_vec(), limit);
    process.run(records).unwrap()
}

fn all(process: &Process) -> BTreeMap<Vec<u8>, Vec<u8>> {
    read(process, &[0x10], &[0xff], usize::MAX)
        .into_iter()
        .collect()
}

#[test]
fn records_come_with_samples_and_survive_a_crash() {
    let world = World::new();
    let process = world.start();
    let fill = |batch: &mut icecore_storage::WriteBatch<'_>| {
        batch.catalog(change(&[0x10, 1], Some(b"host")));
        let labels = raw("up", "a");
        batch.series(RawLabels(&labels));
        batch.sample(Sample {
            timestamp_ms: T0,
            value: 1.0,
            start_timestamp_ms: 0,
        });
        Ok::<_, Infallible>(())
    };
    assert_eq!(process.run(process.db.write(fill)).unwrap().samples, 1);
    let expected = BTreeMap::from([(vec![0x10, 1], b"host".to_vec())]);
    assert_eq!(all(&process), expected);
    process.crash();
    let process = world.start();
    assert_eq!(all(&process), expected, "from the journal");
    process.run(process.db.flush()).unwrap();
    process.crash();
    let process = world.start();
    assert_eq!(all(&process), expected, "from the store");
    process.close();
    world.check();
}

#[test]
fn ranges_are_in_key_order_and_limited() {
    let world = World::new();
    let process = world.start();
    let named = |key: u8| change(&[0x20, key], Some(&[key]));
    write(&process, [1, 3, 5, 7].map(named).to_vec());
    process.run(process.db.flush()).unwrap();
    let mut changes = [2, 5, 9].map(named).to_vec();
    changes.push(change(&[0x20, 3], None));
    write(&process, changes);
    let keys = |from: u8, to: u8, limit| -> Vec<u8> {
        let records = read(&process, &[0x20, from], &[0x20, to], limit);
        records.iter().map(|(key, _)| key[1]).collect()
    };
    assert_eq!(keys(0, 99, 99), [1, 2, 5, 7, 9]);
    assert_eq!(keys(0, 99, 3), [1, 2, 5]);
    assert_eq!(keys(2, 7, 99), [2, 5]);
    assert!(keys(7, 2, 99).is_empty());
    assert!(read(&process, &[0x21], &[0x22], 99).is_empty());
    let own = process.db.range(vec![1]..vec![2], 1);
    assert!(process.run(own).is_err(), "metadata is not theirs");
}

#[test]
fn what_is_too_large_or_not_theirs_is_refused() {
    let world = World::new();
    let process = world.start();
    let refused = [
        change(&[1, b'x'], Some(b"metadata of x?")),
        change(&[], Some(b"")),
        change(&vec![0x10; 40_000], Some(b"")),
        change(&[0x10], Some(&vec![0; 5 << 20])),
    ];
    let mut changes = refused.to_vec();
    changes.push(change(&[0x10, 7], Some(b"fine")));
    assert_eq!(write(&process, changes), 4);
    assert_eq!(all(&process).len(), 1);
}

/// What happens to a catalog.
#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(u8, Option<u8>)>),
    Flush,
    Crash,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let changes = prop::collection::vec((0..8u8, prop::option::of(any::<u8>())), 1..5);
    let step = prop_oneof![
        6 => changes.prop_map(Step::Write),
        2 => Just(Step::Flush),
        2 => Just(Step::Crash),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_catalog_agrees_with_a_map(steps in steps()) {
        let world = World::new();
        let mut process = world.start();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Write(changes) => {
                    for (key, value) in &changes {
                        match value {
                            Some(value) => model.insert(vec![0x2F, *key], vec![*value]),
                            None => model.remove(&[0x2F, *key][..]),
                        };
                    }
                    let changes = changes.iter().map(|(key, value)| {
                        change(&[0x2F, *key], value.as_ref().map(std::slice::from_ref))
                    });
                    write(&process, changes.collect());
                }
                Step::Flush => process.run(process.db.flush()).unwrap(),
                Step::Crash => {
                    process.crash();
                    process = world.start();
                }
                Step::Close => {
                    process.close();
                    process = world.start();
                }
            }
            prop_assert_eq!(&all(&process), &model);
        }
        process.close();
        world.check();
    }
}
