//! The shard of another process, read beside it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use icecore_model::event::EventShard;

use super::*;
use crate::process::World;
use crate::support::{HOUR, LOOK_EVERY, PATIENCE, T0, write as write_samples};

/// Every look is a new one.
const NO_AGE: Duration = Duration::ZERO;

/// Two databases side by side, as two prefixes of a bucket are.
struct Neighbours {
    directory: tempfile::TempDir,
    own: Process,
    other: Process,
}

impl Neighbours {
    fn start() -> Self {
        Self::start_apart(0)
    }

    /// The clock of the other one is so far ahead.
    fn start_apart(ahead_ms: i64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [own, other] = [("a", 0), ("b", ahead_ms)].map(|(name, ahead_ms)| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let world = World::in_directory(&path);
            world.clock.jump(ahead_ms);
            world.start()
        });
        Self {
            directory,
            own,
            other,
        }
    }

    fn location(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn shard(&self, age_max: Duration) -> Arc<dyn EventShard> {
        let location = self.location("b");
        self.own.db.event_shard(&location, age_max).unwrap()
    }

    fn state(&self, shard: &Arc<dyn EventShard>) -> Box<dyn EventSnapshot> {
        self.own.run(shard.snapshot()).unwrap()
    }

    fn blocks(&self, state: &dyn EventSnapshot, after: u64, up_to: u64) -> Vec<(u64, String)> {
        let blocks = self.own.run(state.blocks(after, up_to, 1 << 20)).unwrap();
        let text =
            |(seq, block): (u64, bytes::Bytes)| (seq, String::from_utf8(block.to_vec()).unwrap());
        blocks.into_iter().map(text).collect()
    }
}

fn batch(generation: u64, seq: u64, count: i64) -> EventBatch {
    EventBatch {
        cells: vec![counter(7, 0, 1, count)],
        identities: vec![(identity(0, 1), seq)],
        flushed: Some(mark(generation, seq)),
        ..EventBatch::default()
    }
}

#[test]
fn what_the_other_process_writes_is_seen_and_stays_while_it_is_read() {
    let near = Neighbours::start();
    let shard = near.shard(NO_AGE);
    let empty = near.state(&shard);
    assert_eq!(empty.mark(), FlushMark::default());
    drop(empty);
    let seq = append(&near.other, &["one"])[0];
    write(&near.other, batch(1, seq, 2)).unwrap();
    let first = near.state(&shard);
    assert_eq!(first.mark(), mark(1, seq));
    assert_eq!(counts(&near.own, &*first, 7), [(0, 1, 2)]);
    assert_eq!(find(&near.own, &*first, &[identity(0, 1)]), [Some(seq)]);

    let later = append(&near.other, &["two"])[0];
    write(&near.other, batch(2, later, 3)).unwrap();
    let second = near.state(&shard);
    assert_eq!(counts(&near.own, &*second, 7), [(0, 1, 5)]);
    assert_eq!(
        counts(&near.own, &*first, 7),
        [(0, 1, 2)],
        "it stands still"
    );
    drop((first, second));
    // Nobody reads: from here on a reader goes on from where it was.
    for generation in 3..6 {
        let seq = append(&near.other, &["more"])[0];
        write(&near.other, batch(generation, seq, 1)).unwrap();
        let state = near.state(&shard);
        assert_eq!(state.mark(), mark(generation, seq));
        let expected = 5 + i64::try_from(generation).unwrap() - 2;
        assert_eq!(counts(&near.own, &*state, 7), [(0, 1, expected)]);
    }
    assert_eq!(counts(&near.own, &*snapshot(&near.own), 7), []);
}

#[test]
fn a_state_is_as_old_as_allowed() {
    let near = Neighbours::start();
    let shard = near.shard(Duration::from_secs(3_600));
    drop(near.state(&shard));
    let seq = append(&near.other, &["one"])[0];
    write(&near.other, batch(1, seq, 2)).unwrap();
    assert_eq!(near.state(&shard).mark(), FlushMark::default());
    assert_eq!(near.state(&near.shard(NO_AGE)).mark(), mark(1, seq));
}

#[test]
fn a_state_has_the_guarded_time_of_its_database() {
    let near = Neighbours::start_apart(30 * 24 * HOUR);
    let shard = near.shard(NO_AGE);
    let own_ms = snapshot(&near.own).guarded_ms();
    assert_eq!(own_ms, store(&near.own).guarded_ms());
    // It is stored soon after a start.
    let give_up = Instant::now() + PATIENCE;
    while near.state(&shard).guarded_ms() == 0 {
        assert!(Instant::now() < give_up, "not stored within {PATIENCE:?}");
        std::thread::sleep(LOOK_EVERY);
    }
    assert_eq!(near.state(&shard).guarded_ms(), own_ms + 30 * 24 * HOUR);
}

#[test]
fn blocks_are_read_from_any_to_any() {
    let near = Neighbours::start();
    let shard = near.shard(NO_AGE);
    // Some share a record of the journal, and samples lie in between.
    let seqs = near.other.run(async {
        let (store, mut seqs, mut commits) = (store(&near.other), Vec::new(), Vec::new());
        for number in 0..40 {
            if number % 7 == 0 {
                write_samples(&near.other.db, &[("a", T0 + number, 1.0)]).await;
            }
            let appended = store.append(format!("block {number}").into_bytes());
            let appended = appended.await.unwrap();
            seqs.push(appended.seq);
            commits.push(appended.commit);
        }
        for commit in commits {
            commit.await.unwrap();
        }
        seqs
    });
    let (first, last) = (seqs[0], seqs[39]);
    write(&near.other, batch(1, last, 1)).unwrap();
    let state = near.state(&shard);
    for after in [0, first - 1, first, seqs[5], seqs[20], seqs[38], last] {
        for up_to in [0, first, seqs[6], seqs[21], last, last + 100] {
            let expected: Vec<(u64, String)> = (0..)
                .zip(&seqs)
                .filter(|(_, seq)| **seq > after && **seq <= up_to)
                .map(|(number, seq)| (*seq, format!("block {number}")))
                .collect();
            let found = near.blocks(&*state, after, up_to);
            assert_eq!(found, expected, "after {after}, up to {up_to}");
        }
    }
    let refused = near.own.run(state.blocks(0, last, 20));
    assert!(refused.unwrap_err().0.contains("more than 20 bytes"));
    // The own process reads its own in the same way.
    let own = snapshot(&near.other);
    assert_eq!(near.blocks(&*own, 0, last).len(), 40);
}

/// What has been compacted and drained meanwhile is no trouble.
#[test]
fn files_of_the_other_process_are_read() {
    let near = Neighbours::start();
    let shard = near.shard(NO_AGE);
    let path = "events/service=shop/a.parquet";
    let content = bytes::Bytes::from_static(b"content");
    let other = store(&near.other);
    near.other.run(other.files().put(path, content)).unwrap();
    let read = near.own.run(shard.read_file(path, 3..7));
    assert_eq!(read.unwrap(), "tent");
    assert!(near.own.run(shard.read_file("events/none", 0..1)).is_err());
    assert!(
        near.own
            .run(store(&near.own).files().list())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_other_process_is_not_disturbed() {
    let near = Neighbours::start();
    let shard = near.shard(NO_AGE);
    let seq = append(&near.other, &["one"])[0];
    write(&near.other, batch(1, seq, 2)).unwrap();
    let Neighbours {
        directory,
        own,
        other,
    } = near;
    // Without a writer every change would be the reader's.
    other.close();
    let before = listing(&directory.path().join("b"));
    for _ in 0..3 {
        let state = own.run(shard.snapshot()).unwrap();
        assert_eq!(counts(&own, &*state, 7), [(0, 1, 2)]);
    }
    assert_eq!(listing(&directory.path().join("b")), before);
}

fn listing(directory: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            if entry.metadata().unwrap().is_dir() {
                pending.push(entry.path());
            }
            let name = entry.path().display().to_string();
            found.insert(name, entry.metadata().unwrap().len());
        }
    }
    found
}

#[test]
fn a_shard_that_is_not_there_is_an_error_until_it_is() {
    let near = Neighbours::start();
    let location = near.location("c");
    let shard = near.own.db.event_shard(&location, NO_AGE).unwrap();
    let refused = near.own.run(shard.snapshot()).err().unwrap();
    assert!(refused.0.contains(&location), "{refused}");
    std::fs::create_dir(&location).unwrap();
    let refused = near.own.run(shard.snapshot()).err().unwrap();
    assert!(refused.0.contains("no database"), "{refused}");
    let late = World::in_directory(Path::new(&location)).start();
    let seq = append(&late, &["one"])[0];
    write(&late, batch(1, seq, 2)).unwrap();
    let state = near.own.run(shard.snapshot()).unwrap();
    assert_eq!(state.mark(), mark(1, seq));
}

#[test]
fn the_own_database_is_no_shard_of_another() {
    let near = Neighbours::start();
    for location in [near.location("a"), "memory://".to_owned()] {
        let refused = near.own.db.event_shard(&location, NO_AGE).err().unwrap();
        assert!(
            refused.to_string().contains("another instance"),
            "{refused}"
        );
    }
    assert!(near.own.db.event_shard("ftp://x/y", NO_AGE).is_err());
}
