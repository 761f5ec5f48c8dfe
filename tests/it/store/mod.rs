//! The ledger.

mod foreign_ledger;
mod hostile_ledger;
mod ledger;
