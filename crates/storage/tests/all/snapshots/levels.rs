//! Snapshots of databases in which samples have grown old.

use std::sync::Arc;

use icecore_storage::restore;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;

use crate::all_levels::{NOW, answers, check, check_samples, keeping, layout, made};
use crate::process::{Process, World};
use crate::rollup::{START, maintain, set_clock, world};

/// A database with a snapshot in it becomes one of its own.
fn restored(from: &World, process: &Process, name: &str) -> World {
    let to = Arc::new(InMemory::new());
    let store = Arc::clone(&to) as Arc<dyn ObjectStore>;
    let from_store = Arc::new(from.memory().fork());
    let plan = super::plan(&from_store, &store, name);
    process.run(restore(plan, |_| {})).unwrap();
    let mut world = World::over(to);
    world.options = from.options.clone();
    set_clock(&world, NOW);
    world.check();
    world
}

#[test]
fn a_restored_database_has_all_levels_and_goes_on() {
    let world = world(START);
    let process = made(&world);
    let (answers_before, layout_before) = (answers(&process), layout(&process));
    process
        .run(process.db.create_snapshot(Some("before"), None))
        .unwrap();
    // Late samples are merged, what is out of date is made again, and what was deleted goes.
    let report = maintain(&process);
    assert!(report.merged > 0 && report.rolled_up > 0, "{report:?}");
    assert_ne!(layout(&process), layout_before);
    let (answers_after, layout_after) = (answers(&process), layout(&process));
    process
        .run(process.db.create_snapshot(Some("after"), None))
        .unwrap();

    for (name, answers_then, layout_then) in [
        ("before", &answers_before, &layout_before),
        ("after", &answers_after, &layout_after),
    ] {
        let copy = restored(&world, &process, name);
        let restored = copy.start();
        restored.db.set_retention(Some(keeping()));
        assert_eq!(&layout(&restored), layout_then, "{name}");
        assert_eq!(&answers(&restored), answers_then, "{name}");
        if name == "before" {
            check(&restored);
        }
        // The same becomes of it as of the original.
        maintain(&restored);
        assert_eq!(layout(&restored), layout_after, "{name}");
        assert_eq!(answers(&restored), answers_after, "{name}");
        check_samples(&restored);
        restored.close();
        copy.check();
    }
    process.close();
    world.check();
}
