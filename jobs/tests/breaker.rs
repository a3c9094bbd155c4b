//! A service that does not answer is not asked all the time.

mod support;

use lockyard_jobs::{BreakerCause, JobError, JobEvent, Outcome, Schedule};
use lockyard_testbed::timing::eventually;
use support::{Checked, Heard, MINUTE, Replica, SOON, nothing, server};

#[tokio::test]
async fn a_service_in_trouble_is_not_stormed() -> Checked {
    let server = server();
    let replica = Replica::of(&server);
    let heard = Heard::default();
    let job = replica.job("sync").schedule(Schedule::every(MINUTE)).observer(heard.clone()).build()?;
    replica.lock.link().silence();
    for _ in 0..5 {
        assert!(matches!(job.run_tick(replica.now(), nothing).await, Err(JobError::Lock { .. })));
    }
    let stopped = job.run_tick(replica.now(), nothing).await;
    assert!(matches!(&stopped, Err(JobError::BreakerOpen { failures: 5, .. })), "{stopped:?}");
    assert!(
        heard
            .events()
            .iter()
            .any(|event| matches!(event, JobEvent::BreakerOpened { cause: BreakerCause::Unreachable, .. }))
    );
    replica.lock.link().heal();
    let ran = || async { matches!(job.run_tick(replica.now(), nothing).await, Ok(Outcome::Ran(()))) };
    eventually(SOON, ran).await.ok_or("it stays stopped")?;
    assert!(heard.events().iter().any(|event| matches!(event, JobEvent::BreakerClosed { .. })));
    Ok(())
}
