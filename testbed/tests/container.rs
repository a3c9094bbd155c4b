//! A container of each service; ignored, with the reason, where no Docker socket answers or the image cannot be had.

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use lockyard_testbed::{Options, Server, Service, StartError};

const SOON: Duration = Duration::from_secs(10);
const BRIEFLY: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    let trials = Service::ALL
        .map(|service| Trial::ignorable_test(format!("{service}::runs_in_a_container"), move || run(service)));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn run(service: Service) -> Result<Completion, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match runtime.block_on(Server::start_with(service, Options::new().container_only())) {
        Ok(server) => Ok(runtime.block_on(breaks_and_restarts(server)).map(|()| Completion::Completed)?),
        Err(StartError::Absent(absent)) => Ok(Completion::ignored_with(absent)),
        Err(failed) => Err(failed.into()),
    }
}

async fn breaks_and_restarts(server: Server) -> Result<(), Box<dyn std::error::Error>> {
    let addr = server.addr();
    server.freeze().await?;
    assert!(!server.answers(BRIEFLY).await);
    server.thaw().await?;
    assert!(server.answers(SOON).await);
    server.kill().await?;
    assert!(!server.answers(BRIEFLY).await);
    server.restart().await?;
    server.restart_empty().await?;
    assert!(server.answers(SOON).await && server.addr() == addr);
    Ok(())
}
