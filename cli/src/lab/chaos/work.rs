//! What a client does all the time: take a name, hold it, write under its token, give it back.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lockyard::Clock;
use lockyard_conformance::history::{Event, What};
use lockyard_conformance::scaled;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::plan::Shape;
use super::puppet::Do;
use super::record::Record;
use super::stage::{Ear, Stage};

/// The longest that a client waits for a name.
const WAIT: Duration = Duration::from_secs(5);
/// How long an answer may take beyond that: a client sits an outage out for ten seconds, and may be frozen in between.
const ANSWER: Duration = Duration::from_secs(40);

/// The names that are fought for.
pub(super) fn name_of(name: usize) -> String {
    format!("name-{name}")
}

/// Works one client after another in a slot.
pub(super) struct Worker {
    stage: Arc<Stage>,
    slot: usize,
    shape: Shape,
    rng: Rng,
    heard: UnboundedReceiver<Event>,
    op: u64,
    /// The client that the operation was asked of.
    process: u32,
    pub(super) operations: usize,
    /// What was never answered.
    pub(super) hangs: Vec<String>,
}

/// How an operation ended.
enum Answer {
    Told(What),
    /// The client was killed meanwhile.
    Gone,
    Hung,
}

impl Worker {
    pub(super) fn new(stage: &Arc<Stage>, slot: usize, shape: &Shape, ear: Ear) -> Self {
        let (stage, shape) = (Arc::clone(stage), shape.clone());
        let (tell, heard) = unbounded_channel();
        tokio::spawn(keep(ear, Arc::clone(&stage.record), tell));
        let rng = shape.rng_of(slot);
        Self { stage, slot, shape, rng, heard, op: 0, process: 0, operations: 0, hangs: Vec::new() }
    }

    /// Works until told to stop.
    pub(super) async fn work(mut self, stop: watch::Receiver<bool>) -> Self {
        while !*stop.borrow() {
            let name = name_of(self.rng.usize(..self.shape.names));
            let wait = self.rng.u64(200..5000).min(u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX));
            let request = match self.rng.u8(..10) {
                0..3 => Do::Try { name: name.clone() },
                _ => Do::Acquire { name: name.clone(), wait_ms: wait },
            };
            if self.acquire(request).await {
                self.hold().await;
            } else {
                Clock::system().sleep(Duration::from_millis(self.rng.u64(..30))).await;
            }
        }
        self
    }

    /// Takes the name once and gives it back: how long the taking took, or what came instead.
    pub(super) async fn take(&mut self, name: &str, limit: Duration) -> Result<Duration, String> {
        let clock = Clock::system();
        let begin = clock.now();
        let wait_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let answer = self.request(Do::Acquire { name: name.to_owned(), wait_ms }).await;
        let took = clock.now().since(begin);
        match answer {
            Answer::Told(What::Granted { .. }) => {
                self.give_back(Do::Release).await;
                Ok(took)
            }
            Answer::Told(what) => Err(format!("client {} did not get {name} within {limit:?}: {what}", self.slot)),
            Answer::Gone => Err(format!("client {} has died", self.slot)),
            Answer::Hung => Err(format!("client {} was not answered about {name}", self.slot)),
        }
    }

    /// Asks for a name, and now and then gives up half-way.
    async fn acquire(&mut self, request: Do) -> bool {
        let cancel = (self.rng.u8(..8) == 0).then(|| Duration::from_micros(self.rng.u64(..30_000)));
        self.begin(request).await;
        if let Some(after) = cancel {
            Clock::system().sleep(after).await;
            self.order(Do::Cancel).await;
        }
        matches!(self.answer(is_answer_to_acquire).await, Answer::Told(What::Granted { .. }))
    }

    async fn request(&mut self, request: Do) -> Answer {
        self.begin(request).await;
        self.answer(is_answer_to_acquire).await
    }

    /// Begins an operation with the client that is there now.
    async fn begin(&mut self, request: Do) {
        self.op += 1;
        self.operations += 1;
        let mut puppet = self.stage.slots[self.slot].puppet.lock().await;
        self.process = puppet.process();
        let _dead = puppet.order(self.op, request).await;
    }

    /// Tells the client of the operation to go on with it. Another that has taken its place knows nothing of it.
    async fn order(&self, what: Do) {
        let mut puppet = self.stage.slots[self.slot].puppet.lock().await;
        if puppet.process() == self.process {
            let _dead = puppet.order(self.op, what).await;
        }
    }

    async fn hold(&mut self) {
        if self.rng.bool() {
            self.order(Do::Write).await;
        }
        let time = match self.rng.u8(..10) {
            0..6 => Duration::from_millis(self.rng.u64(..20)),
            6..9 => Duration::from_millis(self.rng.u64(20..300)),
            _ => self.shape.ttl.mul_f64(1.2),
        };
        Clock::system().sleep(time).await;
        if self.rng.bool() {
            self.order(Do::Write).await;
        }
        let how = if self.rng.u8(..4) == 0 { Do::Drop } else { Do::Release };
        self.give_back(how).await;
    }

    async fn give_back(&mut self, how: Do) {
        self.operations += 1;
        let dropped = how == Do::Drop;
        self.order(how).await;
        if !dropped {
            self.answer(is_answer_to_release).await;
        }
    }

    async fn answer(&mut self, is_answer: fn(&What) -> bool) -> Answer {
        let (process, op) = (self.process, self.op);
        let mut last = "nothing".to_owned();
        let heard = async {
            while let Some(event) = self.heard.recv().await {
                if event.process == process {
                    last = event.to_string();
                }
                match event.what {
                    What::Ended if event.process == process => return Answer::Gone,
                    what if event.process == process && event.op == op && is_answer(&what) => {
                        return Answer::Told(what);
                    }
                    _ => {}
                }
            }
            Answer::Gone
        };
        let limit = scaled(WAIT + ANSWER);
        let answer = tokio::time::timeout(limit, heard).await;
        let trouble = match &answer {
            Err(_) => format!("did not answer operation {op} within {limit:?}; the last it said was {last}"),
            Ok(Answer::Gone) if self.stage.process_in(self.slot).await == process => {
                format!("ended by itself in operation {op}")
            }
            Ok(_) => return answer.unwrap_or(Answer::Hung),
        };
        self.hangs.push(format!("client {process} {trouble}"));
        // Another goes on in its place. A client that cannot be replaced hangs again.
        let _failed = self.stage.replace(self.slot).await;
        answer.unwrap_or(Answer::Hung)
    }
}

/// Keeps all that is said, and passes it on.
async fn keep(mut ear: Ear, record: Arc<Record>, tell: UnboundedSender<Event>) {
    while let Some(event) = ear.recv().await {
        record.note(event.clone());
        let _nobody_works = tell.send(event);
    }
}

fn is_answer_to_acquire(what: &What) -> bool {
    match what {
        What::Granted { .. } | What::Busy => true,
        What::Failed { operation, .. } => operation == "acquire",
        _ => false,
    }
}

fn is_answer_to_release(what: &What) -> bool {
    match what {
        What::Released { .. } => true,
        What::Failed { operation, .. } => operation == "release",
        _ => false,
    }
}
