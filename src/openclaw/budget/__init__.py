"""Budget: what model calls cost, and the limits on it.

`limits` estimates a call and decides whether it fits (pure); `ledger.SpendLedger` reserves and settles calls in the
database; `metering.RunMeter` wraps a run's providers so that every call goes through the ledger;
`service.BudgetService` opens meters and sums spending for reports.

Start with `limits.judge`, then `metering`.
"""
