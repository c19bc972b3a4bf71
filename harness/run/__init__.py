"""Do it, in processes: plan, start, time, measure, resume, and the gate over what came out."""
