//! Overlays: tasks with the locations that they read and write, and their check. They run in `run`.
//!
//! # Contract
//! In Rust only a checked overlay has `run`; in C one object has both stages, and a call for the
//! other stage is an error. A check that fails leaves the tasks unchanged, so that the program can
//! set an order and check again.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use syncline_overlay::{
    Checked, Initial as First, Overlay as Tasks,
    access::{Read, Write},
    plan::Task,
};

use crate::error::{
    Error, Returned, Status, array, borrow, c_string, call, claim, name, optional, out, present,
    unused,
};
use crate::locations::Location;

/// A set of iterating tasks, each with the locations that it reads and writes.
#[derive(Debug)]
pub struct Overlay(Mutex<Inside>);

#[derive(Debug)]
pub(crate) struct Inside {
    stage: Stage,
    /// The tasks, by number.
    tasks: Vec<Task>,
    names: Vec<CString>,
}

#[derive(Debug)]
enum Stage {
    Declared(Tasks<'static>),
    Checked(Checked<'static>),
}

/// The present iteration of a task, for its body.
#[derive(Debug)]
pub struct Step(*mut syncline_overlay::Step);

/// The body of a task. It is called in each iteration, with the `user` pointer of the task and the
/// number of the iteration, from 0. It returns 0 for success; any other number ends the run.
///
/// It is called once all requests of the task are granted, from any thread of the run, but never
/// twice at the same time for one task; the writes of earlier tasks at its locations are visible to
/// it. It must return: neither `longjmp` nor the end of its thread may leave it. An exception that
/// leaves it terminates the program. `step` is valid until it returns.
pub type Body = Option<
    unsafe extern "C-unwind" fn(user: *mut c_void, iteration: u64, step: *mut Step) -> c_int,
>;

/// The order, in all iterations, of tasks that conflict.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// The order of declaration: the results of the sequential program.
    Program = 0,
    /// The order of depth: on a grid, the diagonals. The results are those of the sequential
    /// program; the tasks form a wave from the start.
    Wave = 1,
    /// The order with the largest number of tasks that start at once: red and black on a grid. The
    /// results differ from those of the sequential program.
    MaxParallel = 2,
}

/// A C function with its pointer.
struct Callback {
    body: unsafe extern "C-unwind" fn(*mut c_void, u64, *mut Step) -> c_int,
    user: *mut c_void,
}

// SAFETY: `syncline_overlay_task` requires that the function may be called with the pointer from
// any thread.
unsafe impl Send for Callback {}

impl Callback {
    fn call(&self, step: &mut syncline_overlay::Step) -> Result<(), Returned> {
        let iteration = step.iteration();
        let mut step = Step(step);
        // SAFETY: the caller of `syncline_overlay_task` guarantees that the function may be called
        // with `user` until the overlay is freed; the run makes one call for a task at a time.
        match unsafe { (self.body)(self.user, iteration, &raw mut step) } {
            0 => Ok(()),
            code => Err(Returned(code)),
        }
    }
}

impl Inside {
    fn declared(&mut self) -> Result<&mut Tasks<'static>, Error> {
        match &mut self.stage {
            Stage::Declared(tasks) => Ok(tasks),
            Stage::Checked(_) => {
                Err(Error::misuse("the overlay was checked, and cannot be changed any more"))
            }
        }
    }

    pub(crate) fn checked(&mut self) -> Result<&mut Checked<'static>, Error> {
        match &mut self.stage {
            Stage::Checked(checked) => Ok(checked),
            Stage::Declared(_) => Err(Error::misuse("the overlay was not checked")),
        }
    }

    fn check(&mut self, initial: First) -> Result<(), Error> {
        let tasks = self.declared()?;
        // The check consumes the tasks, and an error would lose them.
        tasks.plan().check(&initial)?;
        let checked = std::mem::take(tasks).check(initial)?;
        self.stage = Stage::Checked(checked);
        Ok(())
    }

    fn task(&self, number: u32) -> Result<Task, Error> {
        let task = self.tasks.get(number as usize).copied();
        task.ok_or_else(|| {
            Error::invalid(format!("there is no task {number}: there are {}", self.tasks.len()))
        })
    }
}

/// Takes the overlay for the length of a call.
///
/// # Safety
/// The overlay must be `NULL`, or live for `'a`.
pub(crate) unsafe fn the_overlay<'a>(
    overlay: *const Overlay,
) -> Result<MutexGuard<'a, Inside>, Error> {
    // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
    claim(unsafe { &borrow(overlay, "the overlay")?.0 }, "the overlay")
}

/// # Safety
/// The array must be empty, or have `count` pointers, each of which is `NULL` or points to a live
/// location.
unsafe fn locations<A>(
    list: *const *mut Location,
    count: usize,
    what: &str,
    access: impl Fn(&Location) -> A,
) -> Result<Vec<A>, Error> {
    // SAFETY: the caller guarantees that a non-null `list` points to `count` elements.
    let list = unsafe { array(list, count, &format!("the array of {what}")) }?;
    // SAFETY: the caller guarantees that each pointer is `NULL` or points to a live location.
    list.iter()
        .map(|&l| Ok(access(unsafe { borrow(l, &format!("a location in {what}")) }?)))
        .collect()
}

/// Creates an overlay without tasks. Free it with `syncline_overlay_free`.
///
/// # Safety
/// `*overlay` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_new(overlay: *mut *mut Overlay) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `overlay` is valid for writes.
        let overlay = unsafe { out(overlay, "overlay") }?;
        let inside =
            Inside { stage: Stage::Declared(Tasks::new()), tasks: Vec::new(), names: Vec::new() };
        overlay.write(Box::into_raw(Box::new(Overlay(Mutex::new(inside)))));
        Ok(())
    })
}

/// Frees an overlay; does nothing for `NULL`. Returns `SYNCLINE_STATUS_MISUSE`, and frees nothing,
/// while the overlay runs or another call uses it.
///
/// # Safety
/// `overlay` must come from `syncline_overlay_new`, and no other call with it may begin after this
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_free(overlay: *mut Overlay) -> Status {
    if overlay.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: the caller guarantees that the overlay was not freed (see `# Safety`).
        unused(unsafe { &(*overlay).0 }, "the overlay")?;
        // SAFETY: `syncline_overlay_new` made the box; no call is using the overlay, as checked
        // above, and the caller guarantees that none begins.
        drop(unsafe { Box::from_raw(overlay) });
        Ok(())
    })
}

/// Declares a task: its name, the locations that it reads and writes, and its body.
///
/// Stores the number of the task in `*task`: its place in the order of declaration, from 0. `task`
/// may be `NULL`. An array without locations may be `NULL`. A location must not be in both arrays,
/// nor twice in one: the check would refuse it.
///
/// # Safety
/// * `overlay` must not have been freed. `name` must be a UTF-8 string that ends in a zero byte; it
///   is copied.
/// * `reads` and `writes` must point to `read_count` and `write_count` locations that have not been
///   freed; the arrays are copied.
/// * `task` must be `NULL`, or `*task` must be valid for writes.
/// * Until the overlay is freed, it must be possible to call `body` with `user` from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_task(
    overlay: *mut Overlay,
    name: *const c_char,
    reads: *const *mut Location,
    read_count: usize,
    writes: *const *mut Location,
    write_count: usize,
    body: Body,
    user: *mut c_void,
    task: *mut u32,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `task` is valid for writes.
        let task = unsafe { optional(task) };
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        let mut overlay = unsafe { the_overlay(overlay) }?;
        // SAFETY: the caller guarantees that a non-null `name` is a string that ends in a zero
        // byte.
        let name = unsafe { self::name(name, "the name of the task") }?;
        // SAFETY: the caller guarantees that `reads` has `read_count` live locations.
        let reads: Vec<Read<()>> =
            unsafe { locations(reads, read_count, "reads", |l| l.0.read()) }?;
        // SAFETY: the caller guarantees that `writes` has `write_count` live locations.
        let writes: Vec<Write<()>> =
            unsafe { locations(writes, write_count, "writes", |l| l.0.write()) }?;
        let body = body.ok_or_else(|| Error::invalid("the body of the task is NULL"))?;
        let callback = Callback { body, user };
        let made = overlay
            .declared()?
            .task(name.clone(), (reads, writes), move |_, step| callback.call(step));
        overlay.names.push(c_string(name));
        if let Some(task) = task {
            task.write(overlay.tasks.len() as u32);
        }
        overlay.tasks.push(made);
        Ok(())
    })
}

/// Sets the order of the first requests at one location, in place of the order of the check. The
/// order must name each task that uses the location exactly once. An order can create a deadlock;
/// the check finds it.
///
/// # Safety
/// `overlay` and `location` must not have been freed. `tasks` must point to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_order(
    overlay: *mut Overlay,
    location: *const Location,
    tasks: *const u32,
    count: usize,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        let mut overlay = unsafe { the_overlay(overlay) }?;
        // SAFETY: the caller guarantees that a non-null `location` points to a live location.
        let location = unsafe { borrow(location, "the location") }?;
        // SAFETY: the caller guarantees that a non-null `tasks` points to `count` elements.
        let numbers = unsafe { array(tasks, count, "the array of tasks") }?;
        let tasks: Vec<Task> =
            numbers.iter().map(|&n| overlay.task(n)).collect::<Result<_, _>>()?;
        overlay.declared()?.order(&location.0, tasks);
        Ok(())
    })
}

/// Checks that the tasks can never deadlock, provided that bodies wait for nothing else and that
/// handles which the program uses directly are released. `initial` is a `syncline_initial`.
///
/// After a success the overlay can be run, but not changed. For `SYNCLINE_STATUS_DEADLOCK` the
/// message names the cycle in which the tasks would wait; for `SYNCLINE_STATUS_BAD_OVERLAY` it
/// describes the fault. After either, the overlay is unchanged.
///
/// # Safety
/// `overlay` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_check(overlay: *mut Overlay, initial: u32) -> Status {
    call(|| {
        let first = match initial {
            n if n == Initial::Program as u32 => First::Program,
            n if n == Initial::Wave as u32 => First::Wave,
            n if n == Initial::MaxParallel as u32 => First::MaxParallel,
            n => return Err(Error::invalid(format!("there is no syncline_initial {n}"))),
        };
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        unsafe { the_overlay(overlay) }?.check(first)
    })
}

/// Like `syncline_overlay_check`, with the order given by priorities, one for each task in the
/// order of declaration: smaller numbers first, equal ones in the order of declaration.
///
/// # Safety
/// `overlay` must not have been freed. `priorities` must point to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_check_priorities(
    overlay: *mut Overlay,
    priorities: *const i64,
    count: usize,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `priorities` points to `count` elements.
        let priorities = unsafe { array(priorities, count, "the array of priorities") }?;
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        unsafe { the_overlay(overlay) }?.check(First::Priority(priorities.to_vec()))
    })
}

/// Reports the tasks of a checked overlay that can start at once: writes the first `capacity` of
/// their numbers to `tasks`, and the number of such tasks to `*count`. With a capacity of 0,
/// `tasks` may be `NULL`.
///
/// # Safety
/// `overlay` must not have been freed. `tasks` must be valid for writes of `capacity` numbers, and
/// `*count` for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_active(
    overlay: *const Overlay,
    tasks: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `count` is valid for writes.
        let count = unsafe { out(count, "count") }?;
        if capacity > 0 {
            present(tasks, "tasks")?;
        }
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        let mut overlay = unsafe { the_overlay(overlay) }?;
        let active = overlay.checked()?.start().active();
        for (i, task) in active.iter().take(capacity).enumerate() {
            // Tasks are in the order of their numbers.
            let number = overlay.tasks.partition_point(|t| t < task) as u32;
            // SAFETY: `i` is below `capacity`, and the caller guarantees room for that number of
            // elements.
            unsafe { tasks.add(i).write(number) };
        }
        count.write(active.len());
        Ok(())
    })
}

/// Stores the name of a task in `*name`. The overlay owns the string: it is valid until the overlay
/// is freed.
///
/// # Safety
/// `overlay` must not have been freed. `*name` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_task_name(
    overlay: *const Overlay,
    task: u32,
    name: *mut *const c_char,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `name` is valid for writes.
        let name = unsafe { out(name, "name") }?;
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        let overlay = unsafe { the_overlay(overlay) }?;
        overlay.task(task)?;
        name.write(overlay.names[task as usize].as_ptr());
        Ok(())
    })
}

/// Reports the size of the task's update, for `syncline_overlay_run_until`.
///
/// # Safety
/// `step` must be the argument of the body of a task that has not returned, and no other thread may
/// use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_step_report(step: *mut Step, norm: f64) -> Status {
    // SAFETY: the caller guarantees that a non-null `step` points to a live step.
    call(|| unsafe { the_step(step) }.map(|step| step.report(norm)))
}

/// Makes this the last iteration of the task: no other task waits for it after this one.
///
/// # Safety
/// `step` must be the argument of the body of a task that has not returned, and no other thread may
/// use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_step_leave(step: *mut Step) -> Status {
    // SAFETY: the caller guarantees that a non-null `step` points to a live step.
    call(|| unsafe { the_step(step) }.map(syncline_overlay::Step::leave))
}

/// # Safety
/// The conditions of `syncline_step_leave` apply; the step must not be used otherwise for `'a`.
unsafe fn the_step<'a>(step: *const Step) -> Result<&'a mut syncline_overlay::Step, Error> {
    // SAFETY: the caller guarantees that the body of the task has not returned and that no other
    // thread uses the step; the body runs inside a borrow of the inner step, which is therefore
    // live.
    Ok(unsafe { &mut *borrow(step, "the step")?.0 })
}
