//! How operations name the objects they work on.
//!
//! The kernel finds a set by walking the table's list and comparing names, in creation order; a
//! set created in the same batch can also be found by its id, which is a property of the batch and
//! gone with it. Which message takes which kind of reference is measured in docs/KERNEL.md.

use nl_codec::nft::Str;

/// An existing object: by name, or by the handle which the kernel gave it (dumps and events tell
/// it). A handle cannot hit a later object of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum By<'a> {
    /// By name.
    Name(&'a str),
    /// By handle.
    Handle(u64),
}

impl<'a> From<&'a str> for By<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

/// A set or map, for use in the batch which made the reference and in no other:
/// [`crate::Batch::add_set`] makes it for a set created in this batch (referenced by id alone),
/// [`crate::Batch::set`] for one that exists (referenced by name).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetRef {
    pub(crate) index: u32,
    pub(crate) batch: u32,
    pub(crate) id: Option<u32>,
}

impl SetRef {
    /// The id to put into expressions that use the set; `None` if it goes by name.
    #[must_use]
    pub fn id(self) -> Option<u32> {
        self.id
    }

    /// The name to put into expressions that use the set: the kernel wants the attribute even
    /// beside an id, and an empty name finds nothing else. `name` is the set's name.
    #[must_use]
    pub fn name_in_expr<'a>(self, name: &'a str) -> Str<'a> {
        if self.id.is_some() {
            Str::from("")
        } else {
            Str::from(name)
        }
    }
}

/// One call of a batch's method, in call order from 0. Errors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u32);
