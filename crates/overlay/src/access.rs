//! The locations that a task of an overlay reads and writes, as a type that determines the guards
//! of its body.

pub use crate::location::Placement;

use std::fmt;
use std::sync::Arc;

use crate::error::TaskError;
use crate::location::{Addresses, Core, Location};
use crate::raw::AccessMode;

/// Read access of a task to a location; the body gets a `&T`. Returned by [`Location::read`].
pub struct Read<T: ?Sized> {
    location: Location<T>,
    /// The addresses of the data in even and in odd rounds.
    at: Addresses<T>,
}

/// Write access of a task to a location; the body gets a `&mut T`. Returned by [`Location::write`].
pub struct Write<T: ?Sized> {
    location: Location<T>,
    /// The addresses of the data in even and in odd rounds.
    at: Addresses<T>,
}

impl<T: ?Sized> Read<T> {
    pub(crate) fn new(location: Location<T>) -> Self {
        Read { at: location.own_addresses(), location }
    }
}

impl<T: ?Sized> Write<T> {
    pub(crate) fn new(location: Location<T>) -> Self {
        Write { at: location.own_addresses(), location }
    }
}

impl<T: ?Sized> Location<T> {
    /// Declares that a task of an overlay reads this location.
    #[must_use]
    pub fn read(&self) -> Read<T> {
        Read::new(self.clone())
    }

    /// Declares that a task of an overlay writes this location.
    #[must_use]
    pub fn write(&self) -> Write<T> {
        Write::new(self.clone())
    }
}

/// One request of a task: a location and the access to it.
pub struct Request {
    pub(crate) core: Arc<Core>,
    pub(crate) kind: AccessMode,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("location", &self.core.name)
            .field("kind", &self.kind)
            .finish()
    }
}

/// The return value of a task's body: `()`, or a `Result` whose error stops the run.
pub trait Outcome {
    /// Converts the value to a result.
    ///
    /// # Errors
    /// Returns the error of the body, if it failed.
    fn outcome(self) -> Result<(), TaskError>;
}

impl Outcome for () {
    #[inline]
    fn outcome(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<E: Into<TaskError>> Outcome for Result<(), E> {
    #[inline]
    fn outcome(self) -> Result<(), TaskError> {
        self.map_err(Into::into)
    }
}

/// A set of requests, and the guards that they give. Implemented for [`Read`] and [`Write`], and
/// for options, arrays, vectors and tuples (up to six elements) of them.
///
/// | access             | the body gets                      |
/// |--------------------|------------------------------------|
/// | `Read<T>`          | `&T`                               |
/// | `Write<T>`         | `&mut T`                           |
/// | `Option<A>`        | an `Option` of the guard of `A`    |
/// | `[A; N]`           | an array of the guards of `A`      |
/// | `Vec<Read<T>>`     | [`Reads<T>`], an indexable view    |
/// | `Vec<Write<T>>`    | [`Writes<T>`], a mutable view      |
/// | `(A, B, ..)`, `()` | a tuple of the guards of each      |
///
/// # Safety
/// `requests` must list every location that `open` gives access to, with `AccessMode::Exclusive`
/// for each location that it gives exclusive access to. `place` must call its argument once for
/// each of these requests, in the same order.
pub unsafe trait Access: Send + 'static {
    /// The guards that the body of the task gets.
    type Guard<'g>;

    /// Appends the requests to `list`.
    fn requests(&self, list: &mut Vec<Request>);

    /// Creates the guards of a round of the task, counted from 0.
    ///
    /// # Safety
    /// All requests must be granted for as long as the guards live. No two of them may name the
    /// same location. The memory of [`place`](Self::place) must be valid and hold the data.
    unsafe fn open(&mut self, round: u64) -> Self::Guard<'_>;

    /// Sets the memory in which the requests find their data; `next` returns that of each request
    /// in turn.
    fn place(&mut self, next: &mut dyn FnMut() -> Placement);
}

// SAFETY: `requests` lists the only location, and `open` gives shared access to it.
unsafe impl<T: ?Sized + Send + Sync + 'static> Access for Read<T> {
    type Guard<'g> = &'g T;

    fn requests(&self, list: &mut Vec<Request>) {
        list.push(Request { core: Arc::clone(&self.location.core), kind: AccessMode::Inclusive });
    }

    #[inline]
    unsafe fn open(&mut self, round: u64) -> &T {
        // SAFETY: the inclusive grant lasts as long as the reference, and the memory holds the
        // data: the caller guarantees both. No `&mut` under the same grant exists: `Read` gives
        // none. `self` keeps the location's own memory alive.
        unsafe { self.at.read(round) }
    }

    fn place(&mut self, next: &mut dyn FnMut() -> Placement) {
        self.at = self.location.addresses(next());
    }
}

// SAFETY: `requests` lists the only location, as exclusive.
unsafe impl<T: ?Sized + Send + Sync + 'static> Access for Write<T> {
    type Guard<'g> = &'g mut T;

    fn requests(&self, list: &mut Vec<Request>) {
        list.push(Request { core: Arc::clone(&self.location.core), kind: AccessMode::Exclusive });
    }

    #[inline]
    unsafe fn open(&mut self, round: u64) -> &mut T {
        // SAFETY: the exclusive grant lasts as long as the reference, no other request of the task
        // names this location, and the memory holds the data: the caller guarantees all three.
        // `&mut self` excludes a second reference through this `Write`, and `self` keeps the
        // location's own memory alive.
        unsafe { self.at.write(round) }
    }

    fn place(&mut self, next: &mut dyn FnMut() -> Placement) {
        self.at = self.location.addresses(next());
    }
}

// SAFETY: `requests` lists the requests of the content, if there is one.
unsafe impl<A: Access> Access for Option<A> {
    type Guard<'g> = Option<A::Guard<'g>>;

    fn requests(&self, list: &mut Vec<Request>) {
        if let Some(a) = self {
            a.requests(list);
        }
    }

    #[inline]
    unsafe fn open(&mut self, round: u64) -> Self::Guard<'_> {
        // SAFETY: the caller guarantees the conditions of `open` for the requests of the content.
        self.as_mut().map(|a| unsafe { a.open(round) })
    }

    fn place(&mut self, next: &mut dyn FnMut() -> Placement) {
        if let Some(a) = self {
            a.place(next);
        }
    }
}

// SAFETY: `requests` lists the requests of all elements.
unsafe impl<A: Access, const N: usize> Access for [A; N] {
    type Guard<'g> = [A::Guard<'g>; N];

    fn requests(&self, list: &mut Vec<Request>) {
        self.iter().for_each(|a| a.requests(list));
    }

    #[inline]
    unsafe fn open(&mut self, round: u64) -> Self::Guard<'_> {
        // SAFETY: the caller guarantees the conditions of `open` for the requests of all elements.
        self.each_mut().map(|a| unsafe { a.open(round) })
    }

    fn place(&mut self, next: &mut dyn FnMut() -> Placement) {
        self.iter_mut().for_each(|a| a.place(next));
    }
}

/// The data of several locations that a task reads, by index.
///
/// ```
/// use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
///
/// let parts: Vec<_> = (1..=4).map(|i| Location::new(format!("part {i}"), i)).collect();
/// let sum = Location::new("sum", 0);
/// let mut overlay = Overlay::new();
/// overlay.task(
///     "sum",
///     (sum.write(), parts.iter().map(|p| p.read()).collect::<Vec<_>>()),
///     |(sum, parts), _| {
///         *sum = parts.iter().sum();
///     }
/// );
/// overlay.check(Initial::Program).unwrap().run(Runner::Threads, Stop::after(1)).unwrap();
/// assert_eq!(*sum.reader().acquire().unwrap(), 10);
/// ```
pub struct Reads<'g, T: ?Sized> {
    reads: &'g [Read<T>],
    round: u64,
}

impl<'g, T: ?Sized> Reads<'g, T> {
    /// Returns the number of locations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.reads.len()
    }

    /// Returns whether there are no locations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Returns the data of all locations, in the order of their declaration.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'g T> + use<'g, T> {
        let round = self.round;
        // SAFETY: the view is created only under the grants of all its locations, whose memory
        // holds the data of this round; both last for `'g`. It gives no `&mut`. The borrow of the
        // `Read`s for `'g` keeps the locations' own memory alive.
        self.reads.iter().map(move |read| unsafe { read.at.read(round) })
    }
}

impl<T: ?Sized> std::ops::Index<usize> for Reads<'_, T> {
    type Output = T;

    fn index(&self, i: usize) -> &T {
        // SAFETY: as in `iter`.
        unsafe { self.reads[i].at.read(self.round) }
    }
}

impl<T: ?Sized> fmt::Debug for Reads<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.reads).finish()
    }
}

// SAFETY: `requests` lists every location of the view, and the view gives shared access only.
unsafe impl<T: ?Sized + Send + Sync + 'static> Access for Vec<Read<T>> {
    type Guard<'g> = Reads<'g, T>;

    fn requests(&self, list: &mut Vec<Request>) {
        self.iter().for_each(|a| a.requests(list));
    }

    #[inline]
    unsafe fn open(&mut self, round: u64) -> Reads<'_, T> {
        Reads { reads: self, round }
    }

    fn place(&mut self, next: &mut dyn FnMut() -> Placement) {
        self.iter_mut().for_each(|a| a.place(next));
    }
}

/// The data of several locations that a task writes, by index.
///
/// ```
/// use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
///
/// let bins: Vec<_> = (0..4).map(|i| Location::new(format!("bin {i}"), 0)).collect();
/// let mut overlay = Overlay::new();
/// overlay.task("count", bins.iter().map(|b| b.write()).collect::<Vec<_>>(), |mut bins, _| {
///     for n in [3, 1, 3] {
///         bins[n] += 1;
///     }
///     bins.iter_mut().for_each(|bin| *bin *= 10);
/// });
/// overlay.check(Initial::Program).unwrap().run(Runner::Threads, Stop::after(1)).unwrap();
/// let counts: Vec<i32> = bins.iter().map(|bin| *bin.reader().acquire().unwrap()).collect();
/// assert_eq!(counts, [0, 10, 0, 20]);
/// ```
/// They are accessible one at a time, or all together by [`iter_mut`](Writes::iter_mut):
/// ```compile_fail,E0499
/// # use syncline_overlay::access::Writes;
/// fn twice(mut bins: Writes<'_, i32>) {
///     let (a, b) = (&mut bins[0], &mut bins[0]);
///     *a += *b;
/// }
/// ```
pub struct Writes<'g, T: ?Sized> {
    writes: &'g mut [Write<T>],
    round: u64,
}

impl<T: ?Sized> Writes<'_, T> {
    /// Returns the number of locations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns whether there are no locations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the data of all locations, in the order of their declaration.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        let round = self.round;
        // SAFETY: the view is created only under the exclusive grants of all its locations, whose
        // memory holds the data of this round, and is the only access to them. It is borrowed for
        // as long as the references live, so no `&mut` coexists with them.
        self.writes.iter().map(move |write| unsafe { write.at.read(round) })
    }

    /// Returns the data of all locations for writing, in the order of their declaration.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> {
        let round = self.round;
        // SAFETY: the grants are as in `iter`, and the view is borrowed exclusively. Each location
        // occurs once, as `check` refuses a task that asks for a location twice: so no two of the
        // references are to one value.
        self.writes.iter_mut().map(move |write| unsafe { write.at.write(round) })
    }

    /// Returns the data of location `i` for writing, or `None` if there is no such location.
    #[must_use]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        let round = self.round;
        // SAFETY: as in `iter_mut`.
        self.writes.get_mut(i).map(|write| unsafe { write.at.write(round) })
    }
}

impl<T: ?Sized> std::ops::Index<usize> for Writes<'_, T> {
    type Output = T;

    fn index(&self, i: usize) -> &T {
        // SAFETY: as in `iter`.
        unsafe { self.writes[i].at.read(self.round) }
    }
}

impl<T: ?Sized> std::ops::IndexMut<usize> for Writes<'_, T> {
    fn index_mut(&mut self, i: usize) -> &mut T {
        // SAFETY: as in `iter_mut`.
        unsafe { self.writes[i].at.write(self.round) }
    }
}

impl<T: ?Sized> fmt::Debug for Writes<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.writes).finish()
    }
}

// SAFETY: `requests` lists every location of the view, as exclusive.
unsafe impl<T: ?Sized + Send + Sync + 'static> Access for Vec<Write<T>> {
    type Guard<'g> = Writes<'g, T>;

    fn requests(&self, list: &mut Vec<Request>) {
        self.iter().for_each(|a| a.requests(list));
    }

    #[inline]
    unsafe fn open(&mut self, round: u64) -> Writes<'_, T> {
        Writes { writes: self, round }
    }

    fn place(&mut self, next: &mut dyn FnMut() -> Placement) {
        self.iter_mut().for_each(|a| a.place(next));
    }
}

macro_rules! tuple {
    ($($a:ident)*) => {
        // SAFETY: `requests` lists the requests of all elements.
        unsafe impl<$($a: Access),*> Access for ($($a,)*) {
            type Guard<'g> = ($($a::Guard<'g>,)*);

            #[allow(non_snake_case, reason = "one name for a type and its value")]
            fn requests(&self, _list: &mut Vec<Request>) {
                let ($($a,)*) = self;
                $($a.requests(_list);)*
            }

            #[inline]
            #[allow(non_snake_case, clippy::unused_unit, reason = "one name for a type and its value")]
            unsafe fn open(&mut self, _round: u64) -> Self::Guard<'_> {
                let ($($a,)*) = self;
                // SAFETY: the caller guarantees the conditions of `open` for the requests of all
                // elements.
                ($(unsafe { $a.open(_round) },)*)
            }

            #[allow(non_snake_case, reason = "one name for a type and its value")]
            fn place(&mut self, _next: &mut dyn FnMut() -> Placement) {
                let ($($a,)*) = self;
                $($a.place(_next);)*
            }
        }
    };
}
tuple!();
tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);

impl<T: ?Sized> fmt::Debug for Read<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Read").field(&self.location.name()).finish()
    }
}

impl<T: ?Sized> fmt::Debug for Write<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Write").field(&self.location.name()).finish()
    }
}
