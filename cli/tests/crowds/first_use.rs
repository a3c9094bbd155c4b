//! B13: a name that nobody has used before, wanted by 64 clients in 8 processes at the same moment.

use std::time::Duration;

use crate::puppet::{Do, now};
use crate::stage::{Client, Site, Stage, checked};

const PROCESSES: u32 = 8;
/// Clients in each of them.
const EACH: u64 = 8;
/// From the orders to the race: all have to be read by then.
const START: Duration = Duration::from_millis(10);
const ANSWER: Duration = Duration::from_secs(30);

/// So many names, each raced for twice: the second time it has been used, and its token has to be larger.
pub(crate) async fn run(site: Site, names: u64) {
    let Some(stage) = Stage::of(site, Duration::from_secs(30)).await else { return };
    let mut clients = Vec::new();
    for process in 1..=PROCESSES {
        clients.push(stage.client(process, EACH).await);
    }
    // Who answers is connected.
    race(&mut clients, 0, "before").await;
    let (clock, start) = (lockyard::Clock::system(), lockyard::Clock::system().now());
    for name in 1..=names {
        let text = format!("name-{name}");
        let first = race(&mut clients, 2 * name, &text).await;
        let second = race(&mut clients, 2 * name + 1, &text).await;
        assert!(second > first, "{text} was used with the token {first} and then with {second}");
    }
    let took = clock.now().since(start);
    println!("{} {}{:?}: {names} names in {took:.1?}", site.service, site.query, site.args);
    let holds = checked(clients.iter_mut().flat_map(|client| client.all().to_vec()));
    assert_eq!(holds as u64, 2 * names + 1);
}

/// All try the name at once, and one gets it and gives it back when everybody has his answer; returns its token.
async fn race(clients: &mut [Client], round: u64, name: &str) -> u64 {
    let at = now() + u64::try_from(START.as_nanos()).expect("it is short");
    for client in clients.iter_mut() {
        for op in round * EACH..(round + 1) * EACH {
            client.order(op, Do::Race { name: name.to_owned(), at }).await;
        }
    }
    let mut holders = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        for _ in 0..EACH {
            if let (event, Some(token)) = client.answer(ANSWER).await {
                holders.push((number, event.op, token));
            }
        }
    }
    let [(holder, op, token)] = holders[..] else {
        panic!("{name}: {} of {} got it at a time: {holders:?}", holders.len(), clients.len() as u64 * EACH)
    };
    clients[holder].release(op, ANSWER).await;
    token
}
