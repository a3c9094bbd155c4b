//! `lockyard job`: scheduled jobs, looked at and steered by hand.

mod show;

use std::sync::Arc;

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use lockyard::{Clock, FencedRegister};
use lockyard_jobs::{Catalogue, JobControl, JobError, Listed, WallTime};

use crate::exit::{Exit, Failure};
use crate::output::{Voice, print};
use crate::source::SourceArgs;

/// Look at scheduled jobs, pause them, and run them by hand.
///
/// A job is known from its first tick on. What is asked for here is seen by whichever replica looks at the job next:
/// schedulers look every 10 seconds unless told otherwise.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the jobs: what became of the last run, and when the next is due
    List(ListArgs),
    /// Let no run of a job begin from now on; one that goes on is not touched
    Pause(NameArgs),
    /// Let runs of a job begin again; the slots of the pause are not caught up
    Resume(NameArgs),
    /// Ask for one run beside the schedule
    Trigger(NameArgs),
    /// Show the last runs of a job, and the slots that nobody has run
    History(HistoryArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// How to print
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: Form,
}

#[derive(Debug, Args)]
struct NameArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// The job
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
struct HistoryArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// How to print
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: Form,

    /// The job
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
struct CommonArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// Log what the library does
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

/// How jobs are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Table,
    Json,
}

impl JobArgs {
    pub(crate) const fn verbose(&self) -> u8 {
        match &self.action {
            Action::List(ListArgs { common, .. })
            | Action::History(HistoryArgs { common, .. })
            | Action::Pause(NameArgs { common, .. })
            | Action::Resume(NameArgs { common, .. })
            | Action::Trigger(NameArgs { common, .. }) => common.verbose,
        }
    }

    pub(crate) const fn source_mut(&mut self) -> &mut SourceArgs {
        match &mut self.action {
            Action::List(ListArgs { common, .. })
            | Action::History(HistoryArgs { common, .. })
            | Action::Pause(NameArgs { common, .. })
            | Action::Resume(NameArgs { common, .. })
            | Action::Trigger(NameArgs { common, .. }) => &mut common.source,
        }
    }
}

pub(crate) async fn job(args: JobArgs) -> Result<Exit, Failure> {
    match args.action {
        Action::List(args) => list(args).await?,
        Action::History(args) => history(args).await?,
        Action::Pause(args) => known(&args).await?.pause(&caller()).await?,
        Action::Resume(args) => known(&args).await?.resume().await?,
        Action::Trigger(args) => known(&args).await?.trigger(&caller()).await?,
    }
    Ok(Exit::Success)
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let register = args.common.register().await?;
    let catalogue = Catalogue::read(Arc::clone(&register), Clock::system()).await?;
    let mut jobs = Vec::new();
    for (name, listed) in catalogue.jobs {
        let records = control(&name, &listed, &register)?.records().await?;
        jobs.push(show::Job { name, listed, records });
    }
    let now = WallTime::now(&Clock::system());
    print(match args.output {
        Form::Table => show::list(&jobs, now),
        Form::Json => format!("{:#}", show::list_json(&jobs, now)),
    });
    Ok(())
}

async fn history(args: HistoryArgs) -> Result<(), Failure> {
    let register = args.common.register().await?;
    let (listed, control) = find(&args.name, &register).await?;
    let job = show::Job { records: control.records().await?, name: args.name, listed };
    print(match args.output {
        Form::Table => show::history(&job),
        Form::Json => format!("{:#}", show::history_json(&job)),
    });
    Ok(())
}

async fn known(args: &NameArgs) -> Result<JobControl, Failure> {
    let register = args.common.register().await?;
    Ok(find(&args.name, &register).await?.1)
}

/// A job that is listed: its shards are known then.
async fn find(name: &str, register: &Arc<dyn FencedRegister>) -> Result<(Listed, JobControl), Failure> {
    let mut catalogue = Catalogue::read(Arc::clone(register), Clock::system()).await?;
    let Some(listed) = catalogue.jobs.remove(name) else {
        let message =
            format!("there is no job {name:?} here: a job is known from its first tick on (see \"lockyard job list\")");
        return Err(Failure::usage(message));
    };
    let control = control(name, &listed, register)?;
    Ok((listed, control))
}

fn control(name: &str, listed: &Listed, register: &Arc<dyn FencedRegister>) -> Result<JobControl, Failure> {
    Ok(JobControl::new(name, listed.shards, Arc::clone(register), Clock::system())?)
}

impl CommonArgs {
    async fn register(&self) -> Result<Arc<dyn FencedRegister>, Failure> {
        let source = self.source.resolve(None, Voice::new(false, self.verbose))?;
        Ok(lockyard::connect_register(source.url()).await?)
    }
}

/// Who says so: for the people who find the job paused.
fn caller() -> String {
    let user = std::env::var("USER").unwrap_or_else(|_| nix::unistd::getuid().to_string());
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{user}@{}", host.as_deref().unwrap_or("unknown"))
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        let message = error.to_string();
        match error {
            JobError::Lock { source, .. } => Self::new(Self::from(source).exit, message),
            JobError::Invalid(_) => Self::config(message),
            _ => Self::internal(message),
        }
    }
}
