//! Kernels that are only known at run time.
//!
//! # Contract
//! The engine is compiled per type of kernel. A described kernel and a C function come as one of a
//! few types, which differ in the neighbours that are used; [`WithKernel`] is what is done with any
//! of them.

use crate::kernel::Update;

/// Something to be done with a kernel whose type is not known yet.
pub(crate) trait WithKernel {
    /// What comes of it.
    type Output;

    /// Does it.
    fn with<U: Update>(self, kernel: &U) -> Self::Output;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Described {}
    impl Sealed for crate::CKernel {}
}

/// A kernel that is only known at run time: a [`Described`](crate::Described) one or a
/// [`CKernel`](crate::CKernel).
pub trait Dynamic: sealed::Sealed + Send + Sync {
    /// Does something with the kernel.
    #[doc(hidden)]
    #[allow(private_bounds, private_interfaces)]
    fn kernel<W: WithKernel>(&self, with: W) -> W::Output;
}

impl Dynamic for crate::Described {
    #[allow(private_bounds, private_interfaces)]
    fn kernel<W: WithKernel>(&self, with: W) -> W::Output {
        self.kernel(with)
    }
}

impl Dynamic for crate::CKernel {
    #[allow(private_bounds, private_interfaces)]
    fn kernel<W: WithKernel>(&self, with: W) -> W::Output {
        self.kernel(with)
    }
}
