//! Spec, proposal and task documents.

mod documents;
mod findings;
mod skeletons;
