//! What a task of an overlay reads and writes, as a type: the guards that its body gets follow from it.

pub use crate::overlay::Outcome;

use std::fmt;
use std::sync::Arc;

use crate::location::{Core, Location};
use crate::raw::AccessMode;

/// A task reads this location; its body gets a `&T`. Made by [`Location::read`].
pub struct Read<T>(pub(crate) Location<T>);
/// A task writes this location; its body gets a `&mut T`. Made by [`Location::write`].
pub struct Write<T>(pub(crate) Location<T>);

/// One request of a task: a location and what is wanted of it.
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

/// A set of requests and the guards that they give: [`Read`], [`Write`], and options, arrays, vectors
/// and tuples (up to six) of them.
///
/// | access             | the body gets                      |
/// |--------------------|------------------------------------|
/// | `Read<T>`          | `&T`                               |
/// | `Write<T>`         | `&mut T`                           |
/// | `Option<A>`        | `Option` of what `A` gives         |
/// | `[A; N]`           | an array of what `A` gives         |
/// | `Vec<Read<T>>`     | [`Reads<T>`], an indexable view    |
/// | `Vec<Write<T>>`    | [`Writes<T>`], a mutable one       |
/// | `(A, B, ..)`, `()` | a tuple of what each gives         |
///
/// # Safety
/// `requests` lists every location that `open` reaches, with `AccessMode::Exclusive` for each that it gives
/// exclusive access to.
pub unsafe trait Access: Send + 'static {
    /// What the body of the task gets.
    type Guard<'g>;

    /// Lists the requests.
    fn requests(&self, list: &mut Vec<Request>);

    /// Makes the guards.
    ///
    /// # Safety
    /// All requests are granted for as long as the guards live, and no two of them name one location.
    unsafe fn open(&mut self) -> Self::Guard<'_>;
}

// SAFETY: lists its one location, and gives shared access to it.
unsafe impl<T: Send + Sync + 'static> Access for Read<T> {
    type Guard<'g> = &'g T;

    fn requests(&self, list: &mut Vec<Request>) {
        list.push(Request { core: Arc::clone(&self.0.core), kind: AccessMode::Inclusive });
    }

    #[inline]
    unsafe fn open(&mut self) -> &T {
        // SAFETY: the caller vouches for the inclusive grant.
        unsafe { self.0.value.read() }
    }
}

// SAFETY: lists its one location as exclusive.
unsafe impl<T: Send + Sync + 'static> Access for Write<T> {
    type Guard<'g> = &'g mut T;

    fn requests(&self, list: &mut Vec<Request>) {
        list.push(Request { core: Arc::clone(&self.0.core), kind: AccessMode::Exclusive });
    }

    #[inline]
    unsafe fn open(&mut self) -> &mut T {
        // SAFETY: the caller vouches for the exclusive grant, and that nothing else in the task reaches it.
        unsafe { self.0.value.write() }
    }
}

// SAFETY: lists what its content lists.
unsafe impl<A: Access> Access for Option<A> {
    type Guard<'g> = Option<A::Guard<'g>>;

    fn requests(&self, list: &mut Vec<Request>) {
        if let Some(a) = self {
            a.requests(list);
        }
    }

    #[inline]
    unsafe fn open(&mut self) -> Self::Guard<'_> {
        // SAFETY: as the caller vouches.
        self.as_mut().map(|a| unsafe { a.open() })
    }
}

// SAFETY: lists what its elements list.
unsafe impl<A: Access, const N: usize> Access for [A; N] {
    type Guard<'g> = [A::Guard<'g>; N];

    fn requests(&self, list: &mut Vec<Request>) {
        self.iter().for_each(|a| a.requests(list));
    }

    #[inline]
    unsafe fn open(&mut self) -> Self::Guard<'_> {
        // SAFETY: as the caller vouches.
        self.each_mut().map(|a| unsafe { a.open() })
    }
}

/// The data of some locations that a task reads, by number.
///
/// ```
/// use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
///
/// let parts: Vec<_> = (1..=4).map(|i| Location::new(format!("part {i}"), i)).collect();
/// let sum = Location::new("sum", 0);
/// let mut overlay = Overlay::new();
/// overlay.task("sum", (sum.write(), parts.iter().map(|p| p.read()).collect::<Vec<_>>()), |(sum, parts), _| {
///     *sum = parts.iter().sum();
/// });
/// overlay.check(Initial::Program).unwrap().run(Runner::Threads, Stop::after(1)).unwrap();
/// assert_eq!(*sum.reader().acquire().unwrap(), 10);
/// ```
pub struct Reads<'g, T>(&'g [Read<T>]);

impl<'g, T> Reads<'g, T> {
    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in the order of their declaration.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'g T> + use<'g, T> {
        // SAFETY: this view is only made under the grants of all its locations, which last for `'g`.
        self.0.iter().map(|read| unsafe { read.0.value.read() })
    }
}

impl<T> std::ops::Index<usize> for Reads<'_, T> {
    type Output = T;

    fn index(&self, i: usize) -> &T {
        // SAFETY: as in `iter`.
        unsafe { self.0[i].0.value.read() }
    }
}

impl<T> fmt::Debug for Reads<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0).finish()
    }
}

// SAFETY: lists every location of the view, which gives shared access only.
unsafe impl<T: Send + Sync + 'static> Access for Vec<Read<T>> {
    type Guard<'g> = Reads<'g, T>;

    fn requests(&self, list: &mut Vec<Request>) {
        self.iter().for_each(|a| a.requests(list));
    }

    #[inline]
    unsafe fn open(&mut self) -> Reads<'_, T> {
        Reads(self)
    }
}

/// The data of some locations that a task writes, by number.
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
/// One of them at a time, or all by [`iter_mut`](Writes::iter_mut):
/// ```compile_fail,E0499
/// # use syncline_overlay::access::Writes;
/// fn twice(mut bins: Writes<'_, i32>) {
///     let (a, b) = (&mut bins[0], &mut bins[0]);
///     *a += *b;
/// }
/// ```
pub struct Writes<'g, T>(&'g mut [Write<T>]);

impl<T> Writes<'_, T> {
    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in the order of their declaration.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        // SAFETY: this view is only made under the exclusive grants of all its locations, and reaches them
        // alone; it is borrowed for as long as the references live, so there is no `&mut` meanwhile.
        self.0.iter().map(|write| unsafe { write.0.value.read() })
    }

    /// All of them, to write, in the order of their declaration.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> {
        // SAFETY: as in `iter`, but borrowed exclusively. A location comes once, as a task that asks for
        // one twice is not run: so no two of the references are to one value.
        self.0.iter_mut().map(|write| unsafe { write.0.value.write() })
    }

    /// One of them, to write; `None` if there is none of this number.
    #[must_use]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        // SAFETY: as in `iter_mut`.
        self.0.get_mut(i).map(|write| unsafe { write.0.value.write() })
    }
}

impl<T> std::ops::Index<usize> for Writes<'_, T> {
    type Output = T;

    fn index(&self, i: usize) -> &T {
        // SAFETY: as in `iter`.
        unsafe { self.0[i].0.value.read() }
    }
}

impl<T> std::ops::IndexMut<usize> for Writes<'_, T> {
    fn index_mut(&mut self, i: usize) -> &mut T {
        // SAFETY: as in `iter_mut`.
        unsafe { self.0[i].0.value.write() }
    }
}

impl<T> fmt::Debug for Writes<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.0).finish()
    }
}

// SAFETY: lists every location of the view, as exclusive.
unsafe impl<T: Send + Sync + 'static> Access for Vec<Write<T>> {
    type Guard<'g> = Writes<'g, T>;

    fn requests(&self, list: &mut Vec<Request>) {
        self.iter().for_each(|a| a.requests(list));
    }

    #[inline]
    unsafe fn open(&mut self) -> Writes<'_, T> {
        Writes(self)
    }
}

macro_rules! tuple {
    ($($a:ident)*) => {
        // SAFETY: lists what its elements list.
        unsafe impl<$($a: Access),*> Access for ($($a,)*) {
            type Guard<'g> = ($($a::Guard<'g>,)*);

            #[allow(non_snake_case, reason = "one name for a type and its value")]
            fn requests(&self, _list: &mut Vec<Request>) {
                let ($($a,)*) = self;
                $($a.requests(_list);)*
            }

            #[inline]
            #[allow(non_snake_case, clippy::unused_unit, reason = "one name for a type and its value")]
            unsafe fn open(&mut self) -> Self::Guard<'_> {
                let ($($a,)*) = self;
                // SAFETY: as the caller vouches.
                ($(unsafe { $a.open() },)*)
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

impl<T> fmt::Debug for Read<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Read").field(&self.0.name()).finish()
    }
}

impl<T> fmt::Debug for Write<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Write").field(&self.0.name()).finish()
    }
}
