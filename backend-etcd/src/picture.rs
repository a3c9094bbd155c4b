//! The local picture of one lock's queue: who is still ahead of each claim of this client.
//!
//! Pure bookkeeping over what the server said; nothing here waits or sends.

use std::collections::HashMap;

use crate::listing::{Contender, Listing};

/// What became of a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict<T> {
    /// Everybody ahead is gone: the place of this revision is a hold.
    Head(T, i64),
    /// The key of this revision is gone.
    Gone(T, i64),
}

/// The places of this client in one queue, kept up by the deletes that the watch tells.
///
/// A key counts as gone only by what the server said after it was created: the same key can come again (a program that
/// names its keys by its lease), and then has a larger create revision.
#[derive(Debug)]
pub(crate) struct Picture<T> {
    /// Which opening of the watch it is; `None` while none is open.
    open: Option<u64>,
    openings: u64,
    /// Transactions on their way whose answers will enter places.
    in_flight: usize,
    /// The deletes told while transactions were on their way: they may be older than the answer's arrival and still be
    /// missing from its list.
    told: HashMap<Vec<u8>, i64>,
    places: HashMap<Vec<u8>, Place<T>>,
}

#[derive(Debug)]
struct Place<T> {
    claim: T,
    revision: i64,
    ahead: HashMap<Vec<u8>, i64>,
    /// Whether every delete since the answer has been or will be told: the watch was open before, or a list was read
    /// since it was opened.
    covered: bool,
    head: bool,
}

impl<T> Default for Picture<T> {
    fn default() -> Self {
        Self { open: None, openings: 0, in_flight: 0, told: HashMap::new(), places: HashMap::new() }
    }
}

impl<T: Clone> Picture<T> {
    /// A transaction is about to leave. The answer goes to [`Picture::enter`], its end to [`Picture::arrived`].
    pub(crate) fn departs(&mut self) -> Option<u64> {
        self.in_flight += 1;
        self.open
    }

    pub(crate) fn arrived(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            self.told.clear();
        }
    }

    /// Enters the place that an answer told of. `opening` is what [`Picture::departs`] said before the request left;
    /// without it, or when the watch was opened anew meanwhile, the place must be checked by a list.
    pub(crate) fn enter(
        &mut self,
        key: &[u8],
        revision: i64,
        ahead: Vec<Contender>,
        claim: T,
        opening: Option<u64>,
    ) -> Option<Verdict<T>> {
        let covered = opening.is_some() && opening == self.open;
        let told = &self.told;
        let deleted = |key: &[u8], created: i64| told.get(key).is_some_and(|at| *at > created);
        if deleted(key, revision) {
            self.places.remove(key);
            return Some(Verdict::Gone(claim, revision));
        }
        let ahead: HashMap<_, _> = ahead
            .into_iter()
            .filter(|one| !deleted(&one.key, one.revision))
            .map(|one| (one.key, one.revision))
            .collect();
        let head = covered && ahead.is_empty();
        let verdict = head.then(|| Verdict::Head(claim.clone(), revision));
        self.places.insert(key.to_vec(), Place { claim, revision, ahead, covered, head });
        verdict
    }

    /// The claim is no longer of interest.
    pub(crate) fn leave(&mut self, key: &[u8]) {
        self.places.remove(key);
    }

    /// The watch was opened: what was deleted before nobody will tell.
    pub(crate) fn opened(&mut self) {
        self.openings += 1;
        self.open = Some(self.openings);
        for place in self.places.values_mut() {
            place.covered = false;
        }
    }

    /// The watch is no longer open.
    pub(crate) fn closed(&mut self) {
        self.open = None;
    }

    /// The watch told of deletes, each with its revision.
    pub(crate) fn deleted(&mut self, deletes: &[(&[u8], i64)]) -> Vec<Verdict<T>> {
        let mut verdicts = Vec::new();
        // The own keys first: a lease that ends takes a client's places together, and then nobody has won.
        for (key, at) in deletes {
            if self.in_flight > 0 {
                self.told.insert(key.to_vec(), *at);
            }
            if self.places.get(*key).is_some_and(|place| *at > place.revision)
                && let Some(place) = self.places.remove(*key)
            {
                verdicts.push(Verdict::Gone(place.claim, place.revision));
            }
        }
        for place in self.places.values_mut().filter(|place| !place.head) {
            for (key, at) in deletes {
                if place.ahead.get(*key).is_some_and(|created| at > created) {
                    place.ahead.remove(*key);
                }
            }
            verdicts.extend(place.arrive());
        }
        verdicts
    }

    /// A list was read after the watch was opened.
    pub(crate) fn listed(&mut self, list: &Listing) -> Vec<Verdict<T>> {
        let there: HashMap<&[u8], i64> = list.contenders.iter().map(|one| (one.key.as_slice(), one.revision)).collect();
        let mut verdicts = Vec::new();
        self.places.retain(|key, place| {
            // Older than the place: it says nothing about it.
            if list.revision < place.revision {
                return true;
            }
            if there.get(key.as_slice()) != Some(&place.revision) {
                verdicts.push(Verdict::Gone(place.claim.clone(), place.revision));
                return false;
            }
            place.ahead.retain(|key, created| there.get(key.as_slice()) == Some(created));
            place.covered = true;
            verdicts.extend(place.arrive());
            true
        });
        verdicts
    }

    /// Whether a list must be read, the watch being open.
    pub(crate) fn wants_list(&self) -> bool {
        self.open.is_some() && self.places.values().any(|place| !place.covered)
    }

    /// Whether somebody waits, or may wait as soon as an answer arrives.
    pub(crate) fn is_wanted(&self) -> bool {
        self.in_flight > 0 || self.places.values().any(|place| !place.head)
    }

    /// Those who wait.
    pub(crate) fn waiting(&self) -> Vec<T> {
        self.places.values().filter(|place| !place.head).map(|place| place.claim.clone()).collect()
    }
}

impl<T: Clone> Place<T> {
    /// The verdict when everybody ahead is gone and the own key was seen since the watch was opened.
    fn arrive(&mut self) -> Option<Verdict<T>> {
        if self.head || !self.covered || !self.ahead.is_empty() {
            return None;
        }
        self.head = true;
        Some(Verdict::Head(self.claim.clone(), self.revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, revision: i64) -> Contender {
        Contender { key: key.as_bytes().to_vec(), revision }
    }

    fn list(revision: i64, contenders: &[(&str, i64)]) -> Listing {
        let contenders = contenders.iter().map(|(key, at)| one(key, *at)).collect();
        Listing { revision, contenders, more_below: None }
    }

    fn open() -> (Picture<&'static str>, Option<u64>) {
        let mut picture = Picture::default();
        picture.opened();
        let opening = picture.departs();
        (picture, opening)
    }

    #[test]
    fn the_last_delete_ahead_makes_the_head() {
        let (mut picture, opening) = open();
        assert_eq!(picture.enter(b"me", 10, vec![one("a", 3), one("b", 7)], "me", opening), None);
        assert_eq!(picture.deleted(&[(b"b", 11)]), []);
        assert_eq!(picture.deleted(&[(b"other", 12)]), []);
        assert!(picture.is_wanted());
        assert_eq!(picture.deleted(&[(b"a", 13)]), [Verdict::Head("me", 10)]);
        assert_eq!(picture.deleted(&[(b"a", 14)]), []);
    }

    // B130: the predecessor in the middle goes, the holder stays.
    #[test]
    fn somebody_in_the_middle_going_is_no_grant() {
        let (mut picture, opening) = open();
        picture.enter(b"c", 9, vec![one("a", 3), one("b", 7)], "c", opening);
        assert_eq!(picture.deleted(&[(b"b", 11)]), []);
    }

    #[test]
    fn a_delete_told_before_the_answer_arrived_counts() {
        let (mut picture, opening) = open();
        assert_eq!(picture.deleted(&[(b"a", 11)]), []);
        assert_eq!(picture.enter(b"me", 10, vec![one("a", 3)], "me", opening), Some(Verdict::Head("me", 10)));
        picture.arrived();
        let opening = picture.departs();
        picture.enter(b"you", 20, vec![one("a", 15)], "you", opening);
        assert!(picture.is_wanted(), "an earlier life of the same key is not the one ahead");
        assert_eq!(picture.deleted(&[(b"a", 14)]), []);
        assert_eq!(picture.deleted(&[(b"a", 21)]), [Verdict::Head("you", 20)]);
    }

    // B108: both keys go with the lease of one client.
    #[test]
    fn the_own_delete_comes_before_the_emptiness() {
        let (mut picture, opening) = open();
        picture.enter(b"me", 10, vec![one("a", 3)], "me", opening);
        assert_eq!(picture.deleted(&[(b"a", 11), (b"me", 11)]), [Verdict::Gone("me", 10)]);
    }

    #[test]
    fn a_hold_whose_key_is_deleted_is_gone() {
        let (mut picture, opening) = open();
        assert_eq!(picture.enter(b"me", 10, vec![], "me", opening), Some(Verdict::Head("me", 10)));
        assert_eq!(picture.deleted(&[(b"me", 12)]), [Verdict::Gone("me", 10)]);
    }

    #[test]
    fn a_watch_opened_late_needs_a_list_that_is_younger_than_the_place() {
        let mut picture = Picture::default();
        assert_eq!(picture.enter(b"me", 10, vec![one("a", 3), one("b", 7)], "me", None), None);
        assert!(!picture.wants_list(), "not before the watch is open");
        picture.opened();
        assert!(picture.wants_list());
        // Emptied by deletes, but the own key may have gone before the watch was open.
        assert_eq!(picture.deleted(&[(b"a", 12), (b"b", 12)]), []);
        assert_eq!(picture.listed(&list(9, &[])), [], "older than the place");
        assert_eq!(picture.listed(&list(13, &[("me", 10)])), [Verdict::Head("me", 10)]);
        assert!(!picture.wants_list());
    }

    #[test]
    fn after_a_gap_the_list_tells_who_went() {
        let (mut picture, opening) = open();
        picture.enter(b"me", 10, vec![one("a", 3), one("b", 7)], "me", opening);
        picture.enter(b"gone", 11, vec![one("a", 3)], "gone", opening);
        picture.closed();
        picture.opened();
        // The key of `a` is there again, in a new life behind us.
        let verdicts = picture.listed(&list(30, &[("me", 10), ("a", 25)]));
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts.contains(&Verdict::Head("me", 10)) && verdicts.contains(&Verdict::Gone("gone", 11)));
    }

    #[test]
    fn an_answer_older_than_the_opening_is_not_covered() {
        let (mut picture, opening) = open();
        picture.closed();
        picture.opened();
        assert_eq!(picture.enter(b"me", 10, vec![], "me", opening), None);
        assert!(picture.wants_list());
        assert_eq!(picture.listed(&list(10, &[("me", 10)])), [Verdict::Head("me", 10)]);
    }
}
