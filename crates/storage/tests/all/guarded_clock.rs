//! The guarded clock goes on where it was, however short the processes live.

use std::time::Duration;

use icecore_model::{Clock as _, HOUR_MS};

use crate::process::{Process, World};
use crate::support::ending;

const MINUTE_MS: i64 = HOUR_MS / 60;
const DAY_MS: i64 = 24 * HOUR_MS;
const MONTH_MS: i64 = 30 * DAY_MS;

fn guarded_ms(process: &Process) -> i64 {
    process.db.events().guarded_ms()
}

#[test]
fn short_lives_move_it_as_one_long_life_does() {
    const LIVES: i64 = 20;
    for (off_ms, direction) in [(MONTH_MS, 1), (-MONTH_MS, -1)] {
        let world = World::new();
        let process = world.start();
        let begun_ms = guarded_ms(&process);
        process.close();
        world.clock.jump(off_ms);
        for _ in 0..LIVES {
            let process = world.start();
            world.clock.advance(MINUTE_MS);
            process.close();
        }
        let process = world.start();
        let moved_ms = guarded_ms(&process) - begun_ms;
        assert_eq!(moved_ms, direction * LIVES * 10 * MINUTE_MS);
    }
}

/// After a month without a process it is behind, and faster than time.
#[test]
fn a_snapshot_lasts_as_long_as_it_should_while_the_clock_catches_up() {
    let mut world = World::new();
    // A run does not wait for the compactor.
    world.options.store.compaction = false;
    world.start().close();
    world.clock.advance(MONTH_MS);
    let process = world.start();
    assert_eq!(world.clock.now_ms() - guarded_ms(&process), MONTH_MS);
    let week = Some(Duration::from_secs(7 * 86_400));
    let made = process.run(process.db.create_snapshot(Some("week"), week));
    assert_eq!(made.unwrap().created_ms, world.clock.now_ms());
    world.clock.advance(6 * DAY_MS);
    assert_eq!(guarded_ms(&process), world.clock.now_ms());
    // The second run begins after what has expired was deleted.
    for _ in 0..2 {
        process.run(process.db.run_maintenance()).unwrap();
    }
    assert_eq!(process.run(process.db.snapshots()).unwrap().len(), 1);
    world.clock.advance(2 * DAY_MS);
    process.run(ending("the snapshot expires", async {
        while !process.db.snapshots().await.unwrap().is_empty() {
            process.db.run_maintenance().await.unwrap();
        }
    }));
}
