//! The numbers and names by which traces know barriers and locks.
//!
//! An object has a number of its process. Objects in memory that processes share, or that the
//! members of a team make together, also have a *place*: how many objects were made before them in
//! this view of the memory. All views make the same objects in the same order, on every host, so
//! the place is the same for all members, and it is a part of the name:
//!
//! | the object is     | its name in traces                | other objects of this name         |
//! |-------------------|-----------------------------------|------------------------------------|
//! | in a shared space | `barrier 3 of the team (counter)` | views of the same barrier          |
//! | on the heap       | `counter 17`                      | none in the process                |
//!
//! Each view has a number of its own. So a reader takes two numbers of the class [`Barrier`] or
//! [`Lock`] for one object if their names are equal, and either both are of the same process or the
//! name contains "of the team". If a process runs several teams one after the other, the places of
//! each begin at 0, and the facts `team.*` are noted again.
//!
//! [`Barrier`]: ObjectClass::Barrier
//! [`Lock`]: ObjectClass::Lock

use syncline_trace::note::{self, Note, ObjectClass};

/// The identity of a barrier or a lock in traces.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    id: u32,
    place: Option<u32>,
}

impl Default for Traced {
    /// Returns the identity of an object that is not known.
    fn default() -> Self {
        Traced { id: u32::MAX, place: None }
    }
}

impl Traced {
    /// Reserves a number for an object at this place.
    pub(crate) fn new(place: Option<u32>) -> Traced {
        Traced { id: note::new_ids(1), place }
    }

    /// Returns the number of the object, the subject of its spans.
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// Notes the name of the object, if recording is on. `kind` is a word such as `counter`.
    pub fn name(self, class: ObjectClass, kind: &str) {
        note::add(|| {
            let word = if class == ObjectClass::Lock { "lock" } else { "barrier" };
            let name = match self.place {
                Some(place) => format!("{word} {place} of the team ({kind})"),
                None => format!("{kind} {}", self.id),
            };
            [Note::Name { class, id: self.id, name }]
        });
    }
}
