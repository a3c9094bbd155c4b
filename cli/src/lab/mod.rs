//! The laboratory: backends checked and measured.

#[cfg(feature = "lab")]
pub(crate) mod chaos;
#[cfg(feature = "lab")]
pub(crate) mod compare;
pub(crate) mod conformance;
#[cfg(feature = "lab")]
mod goals;
mod interrupt;
#[cfg(feature = "lab")]
mod judgement;
#[cfg(feature = "lab")]
mod measuring;
mod progress;
#[cfg(feature = "lab")]
pub(crate) mod report;
mod subject;
mod suite;
mod targets;
#[cfg(feature = "lab")]
pub(crate) mod worker;
