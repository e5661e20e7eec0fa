//! Runs queries.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::registry::FunctionRegistry as _;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use futures::TryStreamExt as _;
use icecore_events::{EventSource, Problem};
use tokio::runtime::{Builder, Runtime};

use crate::answer::{self, Found};
use crate::functions::Functions;
use crate::plan_limits;
use crate::query_memory::{QueryMemory, QueryTime};
use crate::request::{SqlAnswer, SqlRequest};
use crate::row_memory::{CountedPlan, REPEATED_ROWS};
use crate::source::{AbortOnDrop, Source};
use crate::statement::{self, problem};
use crate::tables::{self, CATALOG, SCHEMA};
use crate::timed_rule::timed_rules;
use crate::written_out;

/// The stack of a thread: enough for the deepest plan of the longest text. It takes memory only as
/// far as it is used.
const STACK_BYTES: usize = 512 << 20;

/// What a query may take.
#[derive(Clone, Copy, Debug)]
pub struct SqlLimits {
    pub time: Duration,
    pub memory_bytes: usize,
    /// Threads of all queries together.
    pub threads: usize,
}

impl Default for SqlLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            memory_bytes: 256 * 1024 * 1024,
            // One core is left to those who write.
            threads: std::thread::available_parallelism()
                .map_or(1, |cores| (cores.get() - 1).clamp(1, 8)),
        }
    }
}

/// Runs queries on threads of its own.
pub struct SqlEngine {
    limits: SqlLimits,
    /// There until the engine is dropped.
    runtime: Option<Runtime>,
}

impl SqlEngine {
    pub fn new(limits: SqlLimits) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(limits.threads.max(1))
            .max_blocking_threads(limits.threads.max(1) + 1)
            .thread_name("sql")
            .thread_stack_size(STACK_BYTES)
            .enable_time()
            .build()?;
        Ok(Self {
            limits,
            runtime: Some(runtime),
        })
    }

    /// Answers a query over one state of events and cells. Ends it when the answer is not waited
    /// for.
    pub async fn query(
        &self,
        view: Arc<dyn EventSource>,
        request: SqlRequest,
    ) -> Result<SqlAnswer, Problem> {
        let source = Source::new(view);
        let limits = self.limits;
        let Some(runtime) = &self.runtime else {
            return Err(Problem::new(503, "sql.unavailable", "queries have ended"));
        };
        let (time, _leave) = QueryTime::new(limits.time);
        let work = async move {
            let statement = statement::parse(&request.query)?;
            let context = context(limits, time.clone()).map_err(|error| problem(&error))?;
            let running = run(context, source, statement, &request, limits);
            let done = tokio::time::timeout(limits.time, running).await;
            let found = done.unwrap_or_else(|_| Err(time.problem()))?;
            answer::write(&request, &found)
        };
        let mut working = AbortOnDrop(runtime.spawn(work));
        let done = (&mut working.0).await;
        done.map_err(|error| Problem::new(500, "sql.failed", error.to_string()))?
    }
}

impl Drop for SqlEngine {
    fn drop(&mut self) {
        // Threads cannot be waited for where futures run.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn run(
    (mut context, pool): (SessionContext, Arc<dyn MemoryPool>),
    source: Source,
    statement: datafusion::sql::parser::Statement,
    request: &SqlRequest,
    limits: SqlLimits,
) -> Result<Found, Problem> {
    let registered = tables::register(&context, &source, request.allow_full_scan);
    registered.map_err(|error| problem(&error))?;
    let functions = Arc::new(Functions::new(&context, &pool));
    let planned = context.register_expr_planner(Arc::clone(&functions) as Arc<dyn ExprPlanner>);
    planned.map_err(|error| problem(&error))?;
    let found = execute(
        &context,
        &functions,
        statement,
        request.limit,
        limits.memory_bytes,
    )
    .await;
    found.map_err(|error| problem(&error))
}

/// A context, and the memory of what runs in it.
fn context(
    limits: SqlLimits,
    time: QueryTime,
) -> datafusion::error::Result<(SessionContext, Arc<dyn MemoryPool>)> {
    let config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false)
        .with_target_partitions(limits.threads.max(1));
    // Nothing is written to disks of this machine.
    let no_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let rules = timed_rules(&time);
    let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(limits.memory_bytes, time));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(&pool))
        .with_disk_manager_builder(no_disk)
        .build_arc()?;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_optimizer_rules(rules)
        .build();
    let context = SessionContext::new_with_state(state);
    // Functions that are used as tables make any number of rows of nothing.
    for name in context.state().table_functions().keys() {
        context.deregister_udtf(name);
    }
    Ok((context, pool))
}

async fn execute(
    context: &SessionContext,
    functions: &Functions,
    statement: datafusion::sql::parser::Statement,
    limit: usize,
    memory_bytes: usize,
) -> datafusion::error::Result<Found> {
    let plan = context.state().statement_to_plan(statement).await?;
    written_out::check(&plan)?;
    let only_reads = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    only_reads.verify_plan(&plan)?;
    let plan = functions.bound(plan)?;
    let state = context.state();
    let batch_rows = state.config().batch_size();
    plan_limits::check(&state.optimize(&plan)?, batch_rows, memory_bytes)?;
    let frame = context.execute_logical_plan(plan).await?;
    // The plan lasts until the end: it holds the memory of its rows.
    let counted = CountedPlan::new(frame.create_physical_plan().await?)?;
    let state = context.state();
    let mut config = state.config().clone();
    if counted.repeats {
        config = config.with_batch_size(REPEATED_ROWS);
    }
    let task = TaskContext::from(&state).with_session_config(config);
    let mut stream = execute_stream(Arc::clone(&counted.plan), Arc::new(task))?;
    let mut found = Found {
        schema: stream.schema(),
        batches: Vec::new(),
        is_cut: false,
    };
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = stream.try_next().await? {
        let room = limit - rows;
        found.is_cut = batch.num_rows() > room;
        let batch = batch.slice(0, room.min(batch.num_rows()));
        rows += batch.num_rows();
        bytes += batch.get_array_memory_size();
        if bytes > memory_bytes {
            let detail = "the answer is larger than the memory of a query";
            return Err(statement::external(Problem::new(422, "sql.limit", detail)));
        }
        if batch.num_rows() > 0 {
            found.batches.push(batch);
        }
        if found.is_cut {
            break;
        }
    }
    Ok(found)
}
