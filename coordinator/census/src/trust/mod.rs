//! How results are checked: against theory, and by deriving records again.

pub mod checks;
pub mod trial;

/// Units as the kernel solves them.
#[cfg(test)]
mod solved {
    use std::sync::atomic::AtomicBool;

    use trailtrap_shared::{
        class::Class,
        game::GameName,
        labelling::batch::Kernel,
        plan::{Plan, PlanOptions},
    };
    use trailtrap_worker::{
        kernel::{SolvedUnit, Solver},
        link::memory,
    };

    /// Shows each unit of an order to `observe`, and hands out the plan of that order.
    pub(super) fn each_unit(
        game: GameName,
        class: Class,
        order: usize,
        options: PlanOptions,
        mut observe: impl FnMut(&SolvedUnit),
    ) -> Plan {
        let solver = Solver {
            game,
            kernel: Kernel::Portable,
            allowance_bytes: 1 << 20,
            stop: &AtomicBool::new(false),
        };
        memory::census_of(class, order, options, &solver, &mut |plan, solved| {
            if plan.order == order {
                observe(solved);
            }
        })
        .unwrap();
        Plan::new(game.layout().on(class), order, options)
    }
}
