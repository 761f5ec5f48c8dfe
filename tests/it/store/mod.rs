//! The ledger.

mod foreign_ledger;
mod ledger;
