//! Overlays: tasks with what they read and write, and their check. They run in `run`.
//!
//! # Contract
//! In Rust only a checked overlay has `run`; here one object has both stages, and a call of the other stage
//! is an error. A check that fails leaves the tasks as they are, so that an order can be given and the
//! check be made again.

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

/// Tasks that go round, each with the locations that it reads and writes.
#[derive(Debug)]
pub struct Overlay(Mutex<Inside>);

#[derive(Debug)]
pub(crate) struct Inside {
    stage: Stage,
    /// By number.
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

/// What a task does in each iteration: it is called with the `user` pointer of the task and the iteration,
/// from 0. 0 is success; any other number ends the run.
///
/// It is called when all requests of the task are granted, from any thread of the run, but never twice at
/// the same time for one task; what tasks did before at its locations is visible to it. It must return:
/// neither `longjmp` nor the end of its thread may take it away. An exception that leaves it ends the
/// program. `step` is valid until it returns.
pub type Body = Option<
    unsafe extern "C-unwind" fn(user: *mut c_void, iteration: u64, step: *mut Step) -> c_int,
>;

/// Who goes first where tasks conflict, for ever.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// The order of declaration: the results of the sequential program.
    Program = 0,
    /// By depth: on a grid, the diagonals. The results of the sequential program; the tasks form a wave
    /// from the first moment.
    Wave = 1,
    /// As many as possible at once: red and black on a grid. Other results than the sequential program's.
    MaxParallel = 2,
}

/// A C function with its pointer.
struct Callback {
    body: unsafe extern "C-unwind" fn(*mut c_void, u64, *mut Step) -> c_int,
    user: *mut c_void,
}

// SAFETY: `syncline_overlay_task` demands that the function may be called with the pointer from any thread.
unsafe impl Send for Callback {}

impl Callback {
    fn call(&self, step: &mut syncline_overlay::Step) -> Result<(), Returned> {
        let iteration = step.iteration();
        let mut step = Step(step);
        // SAFETY: as the caller of `syncline_overlay_task` vouches; one call for a task at a time.
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
        // The check takes the tasks, and an error would lose them.
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

/// Takes the overlay for a call.
///
/// # Safety
/// The overlay is `NULL`, or one that lives for `'a`.
pub(crate) unsafe fn the_overlay<'a>(
    overlay: *const Overlay,
) -> Result<MutexGuard<'a, Inside>, Error> {
    // SAFETY: as the caller vouches.
    claim(unsafe { &borrow(overlay, "the overlay")?.0 }, "the overlay")
}

/// # Safety
/// The array is empty, or has so many locations that live, or `NULL`.
unsafe fn locations<A>(
    list: *const *mut Location,
    count: usize,
    what: &str,
    access: impl Fn(&Location) -> A,
) -> Result<Vec<A>, Error> {
    // SAFETY: as the caller vouches.
    let list = unsafe { array(list, count, &format!("the array of {what}")) }?;
    // SAFETY: as the caller vouches.
    list.iter()
        .map(|&l| Ok(access(unsafe { borrow(l, &format!("a location in {what}")) }?)))
        .collect()
}

/// Makes an overlay without tasks.
///
/// # Safety
/// `*overlay` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_new(overlay: *mut *mut Overlay) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let overlay = unsafe { out(overlay, "overlay") }?;
        let inside =
            Inside { stage: Stage::Declared(Tasks::new()), tasks: Vec::new(), names: Vec::new() };
        overlay.write(Box::into_raw(Box::new(Overlay(Mutex::new(inside)))));
        Ok(())
    })
}

/// Gives an overlay back; `NULL` is nothing. It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while
/// it runs or another call uses it.
///
/// # Safety
/// `overlay` comes from `syncline_overlay_new`, and no other call with it begins from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_free(overlay: *mut Overlay) -> Status {
    if overlay.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: as the caller vouches.
        unused(unsafe { &(*overlay).0 }, "the overlay")?;
        // SAFETY: as the caller vouches: nobody uses the overlay, or ever will.
        drop(unsafe { Box::from_raw(overlay) });
        Ok(())
    })
}

/// Declares a task: its name, the locations that it reads and writes, and what it does in each iteration.
///
/// `*task` gets its number in the order of declaration, from 0; `task` may be `NULL`. An array of no
/// locations may be `NULL`. No location may be in both, or twice in one: the check would refuse it.
///
/// # Safety
/// * `overlay` was not freed. `name` is a string in UTF-8 that ends in a zero byte; it is copied.
/// * `reads` and `writes` point to so many locations that were not freed; the arrays are copied.
/// * `task` is `NULL`, or `*task` can be written.
/// * Until the overlay is freed, `body` may be called with `user` from any thread.
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
        // SAFETY: as the caller vouches.
        let task = unsafe { optional(task) };
        // SAFETY: as the caller vouches.
        let mut overlay = unsafe { the_overlay(overlay) }?;
        // SAFETY: as the caller vouches.
        let name = unsafe { self::name(name, "the name of the task") }?;
        // SAFETY: as the caller vouches.
        let reads: Vec<Read<()>> =
            unsafe { locations(reads, read_count, "reads", |l| l.0.read()) }?;
        // SAFETY: as the caller vouches.
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

/// Sets the order of the first requests at one location by hand, in place of the order of the check. It must
/// name each task that uses the location once. This is how a deadlock can be made; the check finds it.
///
/// # Safety
/// `overlay` and `location` were not freed. `tasks` points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_order(
    overlay: *mut Overlay,
    location: *const Location,
    tasks: *const u32,
    count: usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let mut overlay = unsafe { the_overlay(overlay) }?;
        // SAFETY: as the caller vouches.
        let location = unsafe { borrow(location, "the location") }?;
        // SAFETY: as the caller vouches.
        let numbers = unsafe { array(tasks, count, "the array of tasks") }?;
        let tasks: Vec<Task> =
            numbers.iter().map(|&n| overlay.task(n)).collect::<Result<_, _>>()?;
        overlay.declared()?.order(&location.0, tasks);
        Ok(())
    })
}

/// Checks that the tasks can never deadlock, as long as bodies wait for nothing else and handles used by hand
/// are released. `initial` is one of `syncline_initial`.
///
/// From then on the overlay can be run, and not be changed. `SYNCLINE_STATUS_DEADLOCK` has the circle in
/// which the tasks would wait in its message; `SYNCLINE_STATUS_BAD_OVERLAY` has what else is wrong. After
/// either, the overlay is as it was.
///
/// # Safety
/// `overlay` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_check(overlay: *mut Overlay, initial: u32) -> Status {
    call(|| {
        let first = match initial {
            n if n == Initial::Program as u32 => First::Program,
            n if n == Initial::Wave as u32 => First::Wave,
            n if n == Initial::MaxParallel as u32 => First::MaxParallel,
            n => return Err(Error::invalid(format!("there is no syncline_initial {n}"))),
        };
        // SAFETY: as the caller vouches.
        unsafe { the_overlay(overlay) }?.check(first)
    })
}

/// Like `syncline_overlay_check`, with the order given by numbers, one for each task in the order of
/// declaration; smaller first, equal ones in the order of declaration.
///
/// # Safety
/// `overlay` was not freed. `priorities` points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_check_priorities(
    overlay: *mut Overlay,
    priorities: *const i64,
    count: usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let priorities = unsafe { array(priorities, count, "the array of priorities") }?;
        // SAFETY: as the caller vouches.
        unsafe { the_overlay(overlay) }?.check(First::Priority(priorities.to_vec()))
    })
}

/// The tasks of a checked overlay that can start at once: the first `capacity` of their numbers go to
/// `tasks`, and how many there are to `*count`. With a capacity of 0 `tasks` may be `NULL`.
///
/// # Safety
/// `overlay` was not freed. `capacity` numbers can be written to `tasks`, and one to `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_active(
    overlay: *const Overlay,
    tasks: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let count = unsafe { out(count, "count") }?;
        if capacity > 0 {
            present(tasks, "tasks")?;
        }
        // SAFETY: as the caller vouches.
        let mut overlay = unsafe { the_overlay(overlay) }?;
        let active = overlay.checked()?.start().active();
        for (i, task) in active.iter().take(capacity).enumerate() {
            // Tasks are numbered in their order.
            let number = overlay.tasks.partition_point(|t| t < task) as u32;
            // SAFETY: as the caller vouches.
            unsafe { tasks.add(i).write(number) };
        }
        count.write(active.len());
        Ok(())
    })
}

/// The name of a task. It stays until the overlay is freed.
///
/// # Safety
/// `overlay` was not freed. `*name` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_task_name(
    overlay: *const Overlay,
    task: u32,
    name: *mut *const c_char,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let name = unsafe { out(name, "name") }?;
        // SAFETY: as the caller vouches.
        let overlay = unsafe { the_overlay(overlay) }?;
        overlay.task(task)?;
        name.write(overlay.names[task as usize].as_ptr());
        Ok(())
    })
}

/// Reports the size of the task's update, for `syncline_overlay_run_until`.
///
/// # Safety
/// `step` is what the body of a task was given, and the body has not returned. No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_step_report(step: *mut Step, norm: f64) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { the_step(step) }.map(|step| step.report(norm)))
}

/// Makes this the last iteration of the task: nobody waits for it from now on.
///
/// # Safety
/// `step` is what the body of a task was given, and the body has not returned. No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_step_leave(step: *mut Step) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { the_step(step) }.map(syncline_overlay::Step::leave))
}

/// # Safety
/// As `syncline_step_leave`; the step is not used otherwise for `'a`.
unsafe fn the_step<'a>(step: *const Step) -> Result<&'a mut syncline_overlay::Step, Error> {
    // SAFETY: as the caller vouches; the body of the task runs inside a borrow of the inner step.
    Ok(unsafe { &mut *borrow(step, "the step")?.0 })
}
