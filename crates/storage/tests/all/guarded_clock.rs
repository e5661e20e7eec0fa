//! The guarded clock goes on where it was, however short the processes live.

use icecore_model::HOUR_MS;

use crate::process::{Process, World};

const MINUTE_MS: i64 = HOUR_MS / 60;
const MONTH_MS: i64 = 30 * 24 * HOUR_MS;

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
