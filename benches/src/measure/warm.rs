//! What comes before the clock: whatever a side opens for so many contenders is open before it is timed.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lockyard_api::Clock;
use tokio::task::JoinSet;

use super::crowd::name_apart;
use crate::side::{Contender, Contenders, Outcome, Trouble};

/// Who waits is seen to wait, and who is passed over too.
const ROUNDS: u32 = 4;
/// How many times as long as usual a window is at most.
const MOST: u32 = 4;

type Step<'a> = Pin<Box<dyn Future<Output = Result<(), Trouble>> + Send + 'a>>;

/// Lets contenders that work apart hold their names all at once.
pub(super) async fn hold_all_at_once(contenders: Contenders, name: &str) -> Outcome<Contenders> {
    let name_of = |at| name_apart(name, at);
    let holding = each(contenders, name_of, |contender, name| contender.acquire(name)).await?;
    each(holding, name_of, |contender, name| contender.release(name)).await
}

/// Lets contenders of one name have a turn each, all waiting for it at once, and tells how long that takes them.
pub(crate) async fn warm(contenders: Contenders, name: &str, clock: &Clock) -> Outcome<(Contenders, Duration)> {
    let named = |_| name.to_owned();
    let warm = each(contenders, named, turn).await?;
    let start = clock.now();
    let warm = each(warm, named, turn).await?;
    Ok((warm, clock.now().since(start)))
}

/// How long a window of contenders is whose slowest side takes so long for a turn each: some rounds, in reason.
pub(super) fn window_of_rounds(usual: Duration, round: Duration) -> Duration {
    (round * ROUNDS).clamp(usual, usual * MOST)
}

fn turn<'a>(contender: &'a mut dyn Contender, name: &'a str) -> Step<'a> {
    Box::pin(async move {
        contender.acquire(name).await?;
        contender.release(name).await
    })
}

/// All at once; they come back in their order.
async fn each(
    contenders: Contenders,
    name_of: impl Fn(usize) -> String,
    step: for<'a> fn(&'a mut dyn Contender, &'a str) -> Step<'a>,
) -> Outcome<Contenders> {
    let mut tasks = JoinSet::new();
    for (at, mut contender) in contenders.into_iter().enumerate() {
        let name = name_of(at);
        tasks.spawn(async move { step(contender.as_mut(), &name).await.map(|()| (at, contender)) });
    }
    let mut back = tasks.join_all().await.into_iter().collect::<Outcome<Vec<_>>>()?;
    back.sort_by_key(|(at, _)| *at);
    Ok(back.into_iter().map(|(_, contender)| contender).collect())
}
