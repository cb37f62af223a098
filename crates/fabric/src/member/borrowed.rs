//! Memory and services that collective calls of one kind use again and again.
//!
//! # Contract
//! A [`Space`](syncline_sync::Space) hands out arrays for the life of the team, and an endpoint
//! keeps every service that is attached to it. A call that needs both for a while only borrows the
//! arrays, and gives them back; the next call gets the same ones. All members of a host borrow and
//! give back in the same order, so they choose the same arrays without a message.
//!
//! ```text
//! borrow 3 words ──> 4 words, new      give back ──> free: 4        borrow 2 ──> the same 4 words
//! ```

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use syncline_sync::{
    SpaceError,
    space::{Array, Shared},
};

use super::Member;
use crate::endpoint::Service;

/// The arrays that are free, by the type of their values, and the services, by their type.
#[derive(Default)]
pub(super) struct Borrowed {
    /// For each type of values, a vector of the arrays.
    free: HashMap<TypeId, Box<dyn Any + Send>>,
    services: HashMap<TypeId, u32>,
}

impl std::fmt::Debug for Borrowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Borrowed { free, services } = self;
        f.debug_struct("Borrowed")
            .field("types", &free.len())
            .field("services", &services.len())
            .finish()
    }
}

/// Arrays of more bytes than this have no spare values.
const SMALL: usize = 1 << 20;

impl Borrowed {
    fn of<T: Shared>(&mut self) -> &mut Vec<Array<T>> {
        let arrays = self.free.entry(TypeId::of::<T>());
        let arrays = arrays.or_insert_with(|| Box::new(Vec::<Array<T>>::new()));
        arrays.downcast_mut().expect("the key is the type of the values")
    }
}

impl Member {
    /// Borrows an array of at least `len` values, which the members of this host share. The values
    /// are zero if the array is new, and otherwise what its last user has left.
    ///
    /// # Collective
    /// The members of each host borrow arrays of the same lengths, and give them back, in the same
    /// order.
    ///
    /// # Errors
    /// As [`Space::array`](syncline_sync::Space::array).
    pub fn borrow<T: Shared>(&mut self, len: usize) -> Result<Array<T>, SpaceError> {
        let free = self.borrowed.of::<T>();
        let fits = (0..free.len()).filter(|&at| free[at].len() >= len);
        if let Some(at) = fits.min_by_key(|&at| free[at].len()) {
            return Ok(free.remove(at));
        }
        let small = len.saturating_mul(size_of::<T>()) <= SMALL;
        self.space.array(if small { len.next_power_of_two() } else { len })
    }

    /// Gives a borrowed array back. No member of the host uses it any more.
    ///
    /// # Collective
    /// As for [`borrow`](Self::borrow).
    pub fn give_back<T: Shared>(&mut self, array: Array<T>) {
        self.borrowed.of::<T>().push(array);
    }

    /// Returns the one service of this type, and its number; the first call
    /// [attaches](Self::attach) it. Returns `None` where there are no other hosts.
    ///
    /// # Collective
    /// As for [`attach`](Self::attach).
    pub fn service<S: Service + Default>(&mut self) -> Option<(u32, Arc<S>)> {
        match self.borrowed.services.get(&TypeId::of::<S>()) {
            Some(&number) => {
                self.endpoint().map(|endpoint| (number, endpoint.attach(number, S::default)))
            }
            None => {
                let attached = self.attach(S::default)?;
                self.borrowed.services.insert(TypeId::of::<S>(), attached.0);
                Some(attached)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use syncline_signal::primitive::{AtomicU64, Ordering};

    use crate::Team;

    #[test]
    fn members_of_a_host_borrow_the_same_arrays_again() {
        let sums = Team::hosts(2).processes(2).run(|me| {
            for round in 0..5_u64 {
                let words = me.borrow::<AtomicU64>(3).unwrap();
                let more = me.borrow::<AtomicU64>(100).unwrap();
                words[0].fetch_add(1 + round, Ordering::Relaxed);
                more[99].fetch_add(1, Ordering::Relaxed);
                me.wait().unwrap();
                if round % 2 == 0 {
                    me.give_back(words);
                    me.give_back(more);
                } else {
                    me.give_back(more);
                    me.give_back(words);
                }
            }
            let (words, more) = (me.borrow::<AtomicU64>(2).unwrap(), me.borrow(99).unwrap());
            me.wait().unwrap();
            let more: &AtomicU64 = &more[99];
            (words[0].load(Ordering::Relaxed), words.len(), more.load(Ordering::Relaxed))
        });
        assert_eq!(sums.unwrap(), [(2 * (1 + 2 + 3 + 4 + 5), 4, 10); 4]);
    }
}
