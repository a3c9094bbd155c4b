//! Three sentences that say what the data says.

use super::goals::key;
use super::model::{Backend, Report, ScenarioResult, ScenarioResults};
use super::text;
use crate::stats::Estimate;

impl Report {
    /// Whether it is safe, what a lock costs, what happens under contention. Ties are called ties.
    #[must_use]
    pub fn sentences(&self) -> [String; 3] {
        [self.safety(), self.cost(), self.contention()]
    }

    fn safety(&self) -> String {
        if self.conformance.is_empty() {
            return "The conformance suite was not part of this run: nothing is said about safety.".to_owned();
        }
        let total: u64 = self.conformance.iter().map(|suite| suite.passed + suite.failed).sum();
        let failing: Vec<String> = self
            .conformance
            .iter()
            .filter(|suite| suite.failed > 0)
            .map(|suite| format!("{} breaks {}", suite.backend, suite.failed))
            .collect();
        let overlaps: u64 = self.scenarios.iter().flat_map(|s| &s.results).map(|result| result.overlaps).sum();
        let seen = if overlaps > 0 {
            format!(" Two held one name at once {overlaps} times while it was measured.")
        } else {
            String::new()
        };
        if failing.is_empty() {
            let ignored: u64 = self.conformance.iter().map(|suite| suite.ignored).sum();
            return format!(
                "Every promise that was checked is kept: {total} checks passed on {} backends, {ignored} did not apply.{seen}",
                self.conformance.len()
            );
        }
        let failing: Vec<&str> = failing.iter().map(String::as_str).collect();
        format!("Of {total} checks, {}.{seen}", text::list(&failing))
    }

    fn cost(&self) -> String {
        let Some(scenario) = self.find("uncontended", 1, "one", "same") else {
            return "What one lock costs was not measured.".to_owned();
        };
        let mut costs = self.servers(scenario, |result| result.p50_us);
        costs.sort_by(|(_, a), (_, b)| a.est.total_cmp(&b.est));
        let (Some((first, least)), Some((last, most))) = (costs.first(), costs.last()) else {
            return "What one lock costs was measured on no server.".to_owned();
        };
        let tied: Vec<&str> = costs.iter().filter(|(_, cost)| cost.ties_with(least)).map(|(id, _)| *id).collect();
        let cheapest = match tied.as_slice() {
            [_] => format!("Uncontended, {first} is the cheapest: {} a cycle", text::micros(least.est)),
            tied => format!("Uncontended, {} tie at about {} a cycle", text::list(tied), text::micros(least.est)),
        };
        let dearest = if least.ties_with(most) {
            String::new()
        } else {
            format!(", {last} the dearest with {}", text::micros(most.est))
        };
        format!("{cheapest}{dearest}; {}.", self.overhead(scenario))
    }

    fn overhead(&self, scenario: &ScenarioResults) -> String {
        let ratios = self.servers(scenario, |result| result.floor_ratio);
        let within = |ratio: &&(&str, Estimate)| ratio.1.lo <= 1.0;
        let free = ratios.iter().filter(within).count();
        let most = ratios.iter().max_by(|(_, a), (_, b)| a.est.total_cmp(&b.est));
        let Some((id, most)) = most else { return "there was no bare driver to compare with".to_owned() };
        format!(
            "against the bare driver lockyard shows no cost on {free} of {} servers, and at most {} times its time ({id})",
            ratios.len(),
            text::ratio(most)
        )
    }

    fn contention(&self) -> String {
        let goals = self.goals();
        let measured = goals.iter().filter(|goal| goal.figure != "–").count();
        let reached = goals.iter().filter(|goal| goal.verdict.is_reached()).count();
        let goals = format!("{reached} of {measured} goals are reached");
        let Some(scenario) = self.find("contended", 8, "own", "same") else {
            return format!("Contention was not measured; {goals}.");
        };
        let mut rates = self.servers(scenario, |result| result.per_second);
        rates.sort_by(|(_, a), (_, b)| b.est.total_cmp(&a.est));
        let (Some((first, most)), Some((last, least))) = (rates.first(), rates.last()) else {
            return format!("Contention was measured on no server; {goals}.");
        };
        let tied: Vec<&str> = rates.iter().filter(|(_, rate)| rate.ties_with(most)).map(|(id, _)| *id).collect();
        let who = if tied.len() == 1 {
            format!("{first} hands over most often")
        } else {
            format!("{} tie", text::list(&tied))
        };
        format!(
            "With 8 clients on one name {who}, {} times a second; {last} does {}; {goals}.",
            text::digits(most.est),
            text::digits(least.est)
        )
    }

    /// The backends that are ours.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Backend> + Clone {
        self.backends.iter().filter(|backend| !backend.is_peer())
    }

    /// How a backend is called where it stands beside others: peers are marked as such.
    pub(super) fn name(&self, id: &str) -> String {
        id.strip_prefix("peer:").map_or_else(|| id.to_owned(), |peer| format!("{peer} (peer)"))
    }

    /// A figure of all backends of ours with a server that have it.
    fn servers<'a>(
        &self,
        scenario: &'a ScenarioResults,
        figure: impl Fn(&ScenarioResult) -> Option<Estimate>,
    ) -> Vec<(&'a str, Estimate)> {
        let is_server = |id: &str| {
            self.ours().any(|backend| backend.id == id && !matches!(backend.kind.as_str(), "memory" | "file"))
        };
        let results = scenario.results.iter().filter(|result| is_server(&result.backend));
        results.filter_map(|result| Some((result.backend.as_str(), figure(result)?))).collect()
    }

    /// A scenario of one process, with the local queue, on an idle machine.
    pub(super) fn find(&self, id: &str, contenders: u64, clients: &str, name: &str) -> Option<&ScenarioResults> {
        let found = |scenario: &&ScenarioResults| {
            let parameters = &scenario.parameters;
            let plain = parameters.processes == 1 && parameters.local_queue == "on";
            plain && key(scenario) == (id, contenders, clients, name, "idle")
        };
        self.scenarios.iter().find(found)
    }
}
