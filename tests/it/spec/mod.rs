//! Spec, proposal and task documents.

mod documents;
mod skeletons;
