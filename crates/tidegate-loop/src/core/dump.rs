//! Answering the requests for a dump, on the event loop's thread and between two tasks.

use tidegate_core::internal::contain;

use super::driver::Driver;
use super::loop_core::Core;
use super::run_task::report_panic;
use crate::state::shared::Shared;

impl<D: Driver> Core<D> {
    /// Responds to the requests whose signal has arrived.
    #[cold]
    pub(super) fn answer_dumps(&mut self, shared: &Shared) {
        let driver = contain(|| self.driver.dump()).unwrap_or_else(|panic| {
            report_panic(shared, "the driver's dump", panic);
            None
        });
        shared.answer_dumps(driver);
    }
}
