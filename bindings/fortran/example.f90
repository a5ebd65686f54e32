! SPDX-License-Identifier: Apache-2.0
! Instruments a small iterative solver. usage: example DESTINATION (see gridline.h)
program example
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use gridline
  implicit none
  type(gridline_log) :: log
  character(len=256) :: destination
  real(real64) :: x, residual
  integer :: step
  integer(int64) :: flops

  call get_command_argument(1, destination)
  log = gridline_open("example.f90", destination)
  call gridline_write(log, "solve.start", [field("id", 1), field("method", "Newton   ")])
  x = 1
  flops = 5000000000_int64
  do step = 1, 4
    x = x - (x * x - 2) / (2 * x)
    residual = abs(x * x - 2)
    call gridline_write(log, "solve.step", [field("id", 1), field("step", step), field("residual", residual), &
      field("converged", residual < 1.0e-9_real64)], level=gridline_notice)
  end do
  call gridline_write(log, "solve.end", [field("id", 1), field("flops", flops), field("x", x), field("single", 0.5)])
  if (.not. gridline_flush(log, 1000)) error stop "not everything was written"
  if (gridline_dropped(log) /= 0) error stop "events were dropped"
  call gridline_close(log)
end program example
