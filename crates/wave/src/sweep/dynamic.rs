//! Sweeps of kernels that are defined at run time.

use std::sync::Arc;

use syncline_fabric::Member;
use syncline_kernel::dynamic::Dynamic;
use syncline_store::Matrix;

use super::{Sweep, SweepPlan, SweepReport};
use crate::run::target::{Pending, Target};
use crate::sweep::matrices::Arrays;
use crate::{Result, lanes::Real};

/// Sweeps of kernels that are defined at run time. The methods correspond to those of other
/// kernels, with any number of coefficients.
impl<K: Dynamic> Sweep<K> {
    /// Like [`plan`](Sweep::plan), for a kernel that is defined at run time.
    ///
    /// # Errors
    /// As [`plan`](Sweep::plan); [`Error::Coefficients`](crate::Error::Coefficients) if their
    /// number is not the kernel's.
    pub fn plan_dynamic<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: &Matrix<T>,
    ) -> Result<SweepPlan> {
        let arrays = Arrays { field, coefficients };
        T::executors(&self.settings).plan(&*self.kernel.kernel()?, &arrays, result)
    }

    /// Like [`run`](Sweep::run), for a kernel that is defined at run time.
    ///
    /// # Errors
    /// As [`run`](Sweep::run); [`Error::Coefficients`](crate::Error::Coefficients) if their number
    /// is not the kernel's.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use syncline_store::{Layout, Matrix, Shape};
    /// use syncline_wave::{Described, Sweep};
    ///
    /// let kernel = Described::parse(r#"
    ///     name = "average"
    ///     field = "u"
    ///     update = "u = (n + s + e + w) / 4"
    /// "#)?;
    /// let field = Arc::new(Matrix::from_vec(Shape::new(3, 3), vec![4.0; 9])?);
    /// let result = Matrix::zeros(Shape::new(3, 3), Layout::RowMajor)?;
    /// let (result, _) = Sweep::new(kernel).run_dynamic(&field, &[], result)?;
    /// assert_eq!(result.as_slice(), Some(&[4.0; 9][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_dynamic<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport)> {
        let arrays = Arrays { field, coefficients };
        T::executors(&self.settings).run(self.kernel.kernel()?, &arrays, result)
    }

    /// Like [`run_to`](Sweep::run_to), for a kernel that is defined at run time.
    ///
    /// # Errors
    /// As [`run_to`](Sweep::run_to); [`Error::Coefficients`](crate::Error::Coefficients) if their
    /// number is not the kernel's.
    pub fn run_dynamic_to<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<(Pending, SweepReport)> {
        let arrays = Arrays { field, coefficients };
        T::executors(&self.settings).run_to(self.kernel.kernel()?, &arrays, target)
    }

    /// Like [`run_on`](Sweep::run_on), for a kernel that is defined at run time.
    ///
    /// # Collective
    /// As [`run_on`](Sweep::run_on).
    ///
    /// # Errors
    /// As [`run_on`](Sweep::run_on); [`Error::Coefficients`](crate::Error::Coefficients) if their
    /// number is not the kernel's.
    pub fn run_dynamic_on<T: Real>(
        &self,
        me: &mut Member,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<SweepReport> {
        let arrays = Arrays { field, coefficients };
        T::executors(&self.settings).run_on(self.kernel.kernel()?, &arrays, target, me)
    }

    /// Like [`gather_on`](Sweep::gather_on), for a kernel that is defined at run time.
    ///
    /// # Collective
    /// As [`gather_on`](Sweep::gather_on).
    ///
    /// # Errors
    /// As [`gather_on`](Sweep::gather_on); [`Error::Coefficients`](crate::Error::Coefficients) if
    /// their number is not the kernel's.
    pub fn gather_dynamic_on<T: Real>(
        &self,
        me: &mut Member,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport)> {
        let arrays = Arrays { field, coefficients };
        T::executors(&self.settings).gather_on(self.kernel.kernel()?, &arrays, result, me)
    }
}
