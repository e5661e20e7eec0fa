//! The targets of one job: what discovery finds becomes loops, and what it no longer finds ends.
//!
//! ```text
//! discovery ─► groups ─► targets, relabelled ─► compared with the loops there are
//!                              new: starts   known: continues   gone: ends its series
//! ```
//!
//! Holds always:
//! - A target is known by its labels and URL. A new target with the same series
//!   labels as a removed one continues its series, without markers in between.
//! - A reload changes the job between two scrapes; targets that are the same afterwards see no gap.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tracing::warn;

use super::config::{Discovery, ScrapeConfig, TargetGroup};
use super::discovery;
use super::job::{CurrentJob, Job};
use super::pending_commits::PendingCommits;
use super::relabel::LabelSet;
use super::series::TargetSeries;
use super::target::{Health, RelabelOutcome, Target, TargetSpec, targets_of};
use super::worker::{Context, LoopCommand, Worker};

/// Discovery that changes all the time is followed this often.
const SYNC_PAUSE: Duration = Duration::from_millis(500);

/// How long targets of replaced discovery are kept until the new one has reported.
const FIRST_WORD_PATIENCE: Duration = Duration::from_secs(5);

/// How long loops may go on storing what they have when the process stops.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

/// How long a reload waits until the markers of a job that is gone are durable. They are visible,
/// and on their way, long before: a store that does not answer holds up neither a reload nor a stop
/// behind it.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// Messages of discovery that wait for the pool.
const QUEUE: usize = 16;

/// Targets with something wrong that one synchronisation names in the log.
const PROBLEMS_LOGGED_MAX: usize = 5;

/// A job and its loops.
pub(super) struct Pool {
    pub(super) config: Arc<ScrapeConfig>,
    pub(super) view: Arc<PoolView>,
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
}

/// What the API shows of a pool.
pub(super) struct PoolView {
    pub(super) name: String,
    config: RwLock<Arc<ScrapeConfig>>,
    state: RwLock<PoolState>,
}

#[derive(Clone, Default)]
pub(super) struct PoolState {
    /// In the order of their hashes, so that it is always the same.
    pub(super) active: Vec<Arc<Target>>,
    /// Some of those that relabelling dropped.
    pub(super) dropped: Vec<LabelSet>,
    pub(super) dropped_count: usize,
}

impl PoolView {
    pub(super) fn config(&self) -> Arc<ScrapeConfig> {
        Arc::clone(&self.config.read())
    }

    pub(super) fn state(&self) -> PoolState {
        self.state.read().clone()
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state.read();
        (state.active.len(), state.dropped_count)
    }
}

enum Command {
    Reload(Box<Job>),
    /// Ends all loops, with markers or without.
    Stop(LoopCommand),
}

impl Pool {
    /// `at_once` scrapes new targets at once and then on schedule.
    pub(super) fn start(context: Arc<Context>, job: Job, at_once: bool) -> Self {
        let config = Arc::clone(&job.rules.config);
        let view = Arc::new(PoolView {
            name: config.job_name.clone(),
            config: RwLock::new(Arc::clone(&config)),
            state: RwLock::default(),
        });
        let (commands, received) = mpsc::channel(QUEUE);
        let (found, updates) = mpsc::channel(QUEUE);
        let running = PoolTask {
            context,
            job: Arc::new(CurrentJob::new(job)),
            view: Arc::clone(&view),
            at_once,
            found,
            providers: Vec::new(),
            next_provider: 0,
            loops: HashMap::new(),
            ending: JoinSet::new(),
        };
        let task = tokio::spawn(running.run(received, updates));
        Self {
            config,
            view,
            commands,
            task,
        }
    }

    pub(super) async fn reload(&mut self, job: Job) {
        self.config = Arc::clone(&job.rules.config);
        *self.view.config.write() = Arc::clone(&self.config);
        // A pool ends only on command.
        let _ = self.commands.send(Command::Reload(Box::new(job))).await;
    }

    /// Returns when all loops have ended.
    pub(super) async fn stop(self, command: LoopCommand) {
        let _ = self.commands.send(Command::Stop(command)).await;
        if self.task.await.is_err() {
            warn!(pool = self.view.name, "scrape pool panicked");
        }
    }
}

/// What discovery of one kind has found.
struct Provider {
    number: u64,
    discovery: Discovery,
    groups: BTreeMap<String, TargetGroup>,
    /// Whether it has reported anything yet.
    has_reported: bool,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Provider {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

struct ScrapeLoop {
    target: Arc<Target>,
    command: watch::Sender<LoopCommand>,
    task: JoinHandle<PendingCommits>,
}

type Update = (u64, Vec<TargetGroup>);

struct PoolTask {
    context: Arc<Context>,
    job: Arc<CurrentJob>,
    view: Arc<PoolView>,
    at_once: bool,
    found: mpsc::Sender<Update>,
    providers: Vec<Provider>,
    next_provider: u64,
    loops: HashMap<u64, ScrapeLoop>,
    ending: JoinSet<()>,
}

impl PoolTask {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut updates: mpsc::Receiver<Update>,
    ) {
        self.discover();
        // At the start there is nothing to keep: what is found first is scraped first.
        let mut patience = Instant::now();
        let mut next_sync = Instant::now();
        // When to rebuild the targets, if there is a reason to.
        let mut due: Option<Instant> = None;
        loop {
            let at = match due {
                Some(due) if self.all_reported() => due,
                Some(due) => due.max(patience),
                None => patience,
            };
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Reload(job)) => {
                        self.job.replace(*job);
                        self.discover();
                        patience = Instant::now() + FIRST_WORD_PATIENCE;
                        due = Some(Instant::now());
                    }
                    Some(Command::Stop(command)) => return self.stop(command).await,
                    None => return self.stop(LoopCommand::Stop).await,
                },
                Some((provider, groups)) = updates.recv() => {
                    if self.update(provider, groups) {
                        due = due.or(Some(next_sync));
                    }
                }
                Some(_) = self.ending.join_next(), if !self.ending.is_empty() => {}
                () = tokio::time::sleep_until(at), if due.is_some() => {
                    due = None;
                    self.sync().await;
                    next_sync = Instant::now() + SYNC_PAUSE;
                }
            }
        }
    }

    /// Starts the discoveries of the job; unchanged ones keep what they have found.
    fn discover(&mut self) {
        let wanted = self.job.get().config().discovery.clone();
        let mut before = std::mem::take(&mut self.providers);
        for discovery in wanted {
            let same = before.iter().position(|known| known.discovery == discovery);
            let provider = match same {
                Some(at) => before.swap_remove(at),
                None => self.provider(discovery),
            };
            self.providers.push(provider);
        }
    }

    fn provider(&mut self, discovery: Discovery) -> Provider {
        self.next_provider += 1;
        let number = self.next_provider;
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        let finding = discovery::spawn(&discovery, sender);
        let found = self.found.clone();
        let passing_on = tokio::spawn(async move {
            while let Some(groups) = receiver.recv().await {
                if found.send((number, groups)).await.is_err() {
                    return;
                }
            }
        });
        Provider {
            number,
            discovery,
            groups: BTreeMap::new(),
            has_reported: false,
            tasks: [finding, passing_on],
        }
    }

    fn all_reported(&self) -> bool {
        self.providers.iter().all(|provider| provider.has_reported)
    }

    /// Takes an update of a provider; `false` for one that was removed.
    fn update(&mut self, number: u64, groups: Vec<TargetGroup>) -> bool {
        let provider = self.providers.iter_mut().find(|p| p.number == number);
        let Some(provider) = provider else {
            return false;
        };
        provider.has_reported = true;
        for group in groups {
            if group.targets.is_empty() {
                provider.groups.remove(&group.source);
            } else {
                provider.groups.insert(group.source.clone(), group);
            }
        }
        true
    }

    /// Makes the loops those of the targets that there are.
    async fn sync(&mut self) {
        let job = self.job.get();
        let groups: Vec<TargetGroup> = self
            .providers
            .iter()
            .flat_map(|provider| provider.groups.values().cloned())
            .collect();
        let config = Arc::clone(&job.rules.config);
        // Relabelling thousands of targets is no work for the threads that keep connections going.
        let built = tokio::task::spawn_blocking(move || build(&config, &groups)).await;
        let Ok(mut built) = built else {
            warn!(pool = self.view.name, "cannot build targets");
            return;
        };
        for problem in built.problems.iter().take(PROBLEMS_LOGGED_MAX) {
            warn!(pool = self.view.name, problem, "cannot build target");
        }
        let gone: Vec<u64> = self
            .loops
            .keys()
            .filter(|hash| !built.targets.contains_key(hash))
            .copied()
            .collect();
        let mut removed = RemovedLoops::default();
        for hash in gone {
            if let Some(gone) = self.loops.remove(&hash) {
                removed.add(gone);
            }
        }
        built
            .targets
            .retain(|hash, spec| match self.loops.get(hash) {
                Some(known) => {
                    let discovered = std::mem::take(&mut spec.discovered);
                    *known.target.discovered.lock() = discovered;
                    false
                }
                None => true,
            });
        // Before the first of them is scraped.
        self.check_limit(
            self.loops.len() + built.targets.len(),
            job.config().target_limit,
        );
        for (hash, spec) in built.targets {
            let before = removed.take(&spec);
            self.start(hash, spec, before);
        }
        for gone in removed.rest() {
            // A loop that has already ended receives nothing.
            let _ = gone.command.send(LoopCommand::StopAndMarkStale);
            self.ending.spawn(async move {
                let _ = gone.task.await;
            });
        }
        let mut active: Vec<_> = self.loops.values().map(|l| Arc::clone(&l.target)).collect();
        active.sort_unstable_by_key(|target| target.hash);
        *self.view.state.write() = PoolState {
            active,
            dropped: built.dropped,
            dropped_count: built.dropped_count,
        };
    }

    fn start(&mut self, hash: u64, mut spec: TargetSpec, before: Option<ScrapeLoop>) {
        let (series, health, before) = match before {
            Some(before) => {
                let _ = before.command.send(LoopCommand::Stop);
                let health = before.target.health.lock().clone();
                (Arc::clone(&before.target.series), health, Some(before.task))
            }
            None => {
                let series = TargetSeries::new(spec.public_labels());
                (Arc::new(Mutex::new(series)), Health::default(), None)
            }
        };
        let target = Arc::new(Target {
            discovered: Mutex::new(std::mem::take(&mut spec.discovered)),
            spec,
            hash,
            health: Mutex::new(health),
            series,
        });
        let (command, commands) = watch::channel(LoopCommand::Run);
        let worker = Worker {
            context: Arc::clone(&self.context),
            job: Arc::clone(&self.job),
            target: Arc::clone(&target),
            at_once: self.at_once && before.is_none(),
        };
        let task = worker.start(commands, before);
        self.loops.insert(
            hash,
            ScrapeLoop {
                target,
                command,
                task,
            },
        );
    }

    fn check_limit(&self, count: usize, limit: u64) {
        let exceeded = limit > 0 && count as u64 > limit;
        self.job.refuse(exceeded.then(|| {
            format!("target_limit exceeded (number of targets: {count}, limit: {limit})")
        }));
    }

    async fn stop(mut self, command: LoopCommand) {
        self.providers.clear();
        let mut tasks = std::mem::take(&mut self.ending);
        for (_, ending) in self.loops.drain() {
            let _ = ending.command.send(command);
            tasks.spawn(async move {
                let _ = ending.task.await;
            });
        }
        *self.view.state.write() = PoolState::default();
        let ended = async { while tasks.join_next().await.is_some() {} };
        let patience = match command {
            LoopCommand::StopAndMarkStale => END_PATIENCE,
            // What is not appended by then will be missing, as after any stop.
            LoopCommand::Stop | LoopCommand::Run => LEAVE_PATIENCE,
        };
        let _ = tokio::time::timeout(patience, ended).await;
    }
}

/// Loops whose targets are gone, by the labels of their series.
#[derive(Default)]
struct RemovedLoops(HashMap<Vec<(String, String)>, Vec<ScrapeLoop>>);

impl RemovedLoops {
    fn add(&mut self, gone: ScrapeLoop) {
        let labels = owned_labels(&gone.target.spec);
        self.0.entry(labels).or_default().push(gone);
    }

    /// A loop whose series a new target continues.
    fn take(&mut self, spec: &TargetSpec) -> Option<ScrapeLoop> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_mut(&owned_labels(spec))?.pop()
    }

    fn rest(self) -> impl Iterator<Item = ScrapeLoop> {
        self.0.into_values().flatten()
    }
}

fn owned_labels(spec: &TargetSpec) -> Vec<(String, String)> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    spec.public_labels().map(owned).collect()
}

#[derive(Default)]
struct TargetSet {
    targets: BTreeMap<u64, TargetSpec>,
    dropped: Vec<LabelSet>,
    dropped_count: usize,
    problems: Vec<String>,
}

fn build(config: &ScrapeConfig, groups: &[TargetGroup]) -> TargetSet {
    let mut built = TargetSet::default();
    let kept_max = match config.keep_dropped_targets {
        0 => usize::MAX,
        kept => usize::try_from(kept).unwrap_or(usize::MAX),
    };
    for found in groups.iter().flat_map(|group| targets_of(config, group)) {
        match found {
            Ok(RelabelOutcome::Target(spec)) => {
                built.targets.entry(spec.hash()).or_insert(*spec);
            }
            Ok(RelabelOutcome::Dropped(labels)) => {
                built.dropped_count += 1;
                if built.dropped.len() < kept_max {
                    built.dropped.push(labels);
                }
            }
            Err(problem) => built.problems.push(problem),
        }
    }
    built
}
