! SPDX-License-Identifier: Apache-2.0
! gridline - time-stamped, typed events from Fortran programs, by libgridline.
!
!     use gridline
!     type(gridline_log) :: log
!     log = gridline_open("solver", "unix:/run/gridline/agent.sock")
!     call gridline_write(log, "step.end", [field("id", 7), field("residual", 1.5d-3), field("phase", "assembly")])
!     call gridline_close(log)
!
! Fields are integer (4 or 8 bytes), real (4 or 8 bytes), logical or character; a character value has its trailing
! blanks removed. Like the C library: nothing blocks or stops the program, and a log that could not be opened takes all
! calls. Compile this file with the program and link with -lgridline.
module gridline
  use, intrinsic :: iso_c_binding
  implicit none
  private

  public :: gridline_log, gridline_field, field
  public :: gridline_open, gridline_is_open, gridline_write, gridline_flush, gridline_close, gridline_dropped

  integer(c_int), parameter, public :: gridline_emergency = 0, gridline_alert = 1, gridline_critical = 2, &
    gridline_error = 3, gridline_warning = 4, gridline_auth = 5, gridline_security = 6, gridline_important = 7, &
    gridline_notice = 8, gridline_system = 9, gridline_usage = 10, gridline_info = 11, gridline_debug = 12, &
    gridline_trace = 13
  integer(c_int), parameter, public :: gridline_thread = 1, gridline_env = 2, gridline_manual = 4

  type :: gridline_log
    private
    type(c_ptr) :: handle = c_null_ptr
  end type gridline_log

  ! One named, typed value. Made by field().
  type :: gridline_field
    private
    character(kind=c_char, len=:), allocatable :: name
    character(kind=c_char) :: letter
    integer(c_int64_t) :: bits = 0
    character(kind=c_char, len=:), allocatable :: text
  end type gridline_field

  interface field
    module procedure field_int4, field_int8, field_real4, field_real8, field_logical, field_character
  end interface field

  ! struct gridline_value; the union is 8 bytes, filled by its bits or an address
  type, bind(c) :: c_value
    type(c_ptr) :: name
    character(kind=c_char) :: letter
    integer(c_int64_t) :: bits
    integer(c_size_t) :: length
  end type c_value

  ! struct gridline_stats
  type, bind(c) :: c_stats
    integer(c_int64_t) :: taken = 0, passed = 0, queued = 0, dropped = 0
    integer(c_int64_t) :: reasons(6) = 0
  end type c_stats

  interface
    function c_open(prog, url, flags) bind(c, name="gridline_open") result(handle)
      import :: c_ptr, c_char, c_int
      character(kind=c_char), intent(in) :: prog(*)
      character(kind=c_char), intent(in) :: url(*)
      integer(c_int), value :: flags
      type(c_ptr) :: handle
    end function c_open
    subroutine c_close(handle) bind(c, name="gridline_close")
      import :: c_ptr
      type(c_ptr), value :: handle
    end subroutine c_close
    function c_flush(handle, timeout_ms) bind(c, name="gridline_flush") result(code)
      import :: c_ptr, c_int
      type(c_ptr), value :: handle
      integer(c_int), value :: timeout_ms
      integer(c_int) :: code
    end function c_flush
    subroutine c_get_stats(handle, out, size) bind(c, name="gridline_stats")
      import :: c_ptr, c_size_t, c_stats
      type(c_ptr), value :: handle
      type(c_stats), intent(out) :: out
      integer(c_size_t), value :: size
    end subroutine c_get_stats
    function c_write(handle, time_ns, level, event, values, n) bind(c, name="gridline_write_values") result(code)
      import :: c_ptr, c_int64_t, c_int, c_char, c_size_t, c_value
      type(c_ptr), value :: handle
      integer(c_int64_t), value :: time_ns
      integer(c_int), value :: level
      character(kind=c_char), intent(in) :: event(*)
      type(c_value), intent(in) :: values(*)
      integer(c_size_t), value :: n
      integer(c_int) :: code
    end function c_write
  end interface

contains

  ! url as in gridline.h. Without one, $GRIDLINE_DEST says where; if that is not set, the log is off.
  function gridline_open(prog, url, flags) result(log)
    character(len=*), intent(in) :: prog
    character(len=*), intent(in), optional :: url
    integer, intent(in), optional :: flags
    type(gridline_log) :: log
    integer(c_int) :: bits
    bits = 0
    if (present(flags)) bits = int(flags, c_int)
    if (present(url)) then
      log%handle = c_open(trim(prog) // c_null_char, trim(url) // c_null_char, bits)
    else
      log%handle = c_open(trim(prog) // c_null_char, c_null_char, ior(bits, gridline_env))
    end if
  end function gridline_open

  logical function gridline_is_open(log)
    type(gridline_log), intent(in) :: log
    gridline_is_open = c_associated(log%handle)
  end function gridline_is_open

  ! code (optional): 0, or a negative number when the event could not be taken; it is counted as dropped then.
  subroutine gridline_write(log, event, fields, level, code)
    type(gridline_log), intent(in) :: log
    character(len=*), intent(in) :: event
    type(gridline_field), intent(in), target, optional :: fields(:)
    integer, intent(in), optional :: level
    integer, intent(out), optional :: code
    type(c_value), allocatable :: values(:)
    integer(c_int) :: answer, at_level
    integer :: i, n
    n = 0
    if (present(fields)) n = size(fields)
    allocate (values(max(n, 1)))
    do i = 1, n
      values(i)%name = c_loc(fields(i)%name)
      values(i)%letter = fields(i)%letter
      values(i)%bits = fields(i)%bits
      values(i)%length = 0
      if (allocated(fields(i)%text)) then
        values(i)%bits = transfer(c_loc(fields(i)%text), values(i)%bits)
        values(i)%length = len(fields(i)%text, c_size_t) - 1
      end if
    end do
    at_level = gridline_info
    if (present(level)) at_level = int(level, c_int)
    answer = c_write(log%handle, 0_c_int64_t, at_level, trim(event) // c_null_char, values, int(n, c_size_t))
    if (present(code)) code = answer
  end subroutine gridline_write

  ! True when the destinations have taken everything within the time.
  logical function gridline_flush(log, timeout_ms)
    type(gridline_log), intent(in) :: log
    integer, intent(in) :: timeout_ms
    gridline_flush = c_flush(log%handle, int(timeout_ms, c_int)) == 0
  end function gridline_flush

  ! How many events were dropped so far, for whatever reason.
  integer(c_int64_t) function gridline_dropped(log)
    type(gridline_log), intent(in) :: log
    type(c_stats) :: stats
    call c_get_stats(log%handle, stats, c_sizeof(stats))
    gridline_dropped = stats%dropped
  end function gridline_dropped

  subroutine gridline_close(log)
    type(gridline_log), intent(inout) :: log
    call c_close(log%handle)
    log%handle = c_null_ptr
  end subroutine gridline_close

  pure function plain_field(name, letter) result(f)
    character(len=*), intent(in) :: name
    character(len=1), intent(in) :: letter
    type(gridline_field) :: f
    f%name = trim(name) // c_null_char
    f%letter = letter
  end function plain_field

  pure function field_int8(name, value) result(f)
    character(len=*), intent(in) :: name
    integer(c_int64_t), intent(in) :: value
    type(gridline_field) :: f
    f = plain_field(name, "i")
    f%bits = value
  end function field_int8

  pure function field_int4(name, value) result(f)
    character(len=*), intent(in) :: name
    integer(c_int32_t), intent(in) :: value
    type(gridline_field) :: f
    f = field_int8(name, int(value, c_int64_t))
  end function field_int4

  pure function field_real8(name, value) result(f)
    character(len=*), intent(in) :: name
    real(c_double), intent(in) :: value
    type(gridline_field) :: f
    f = plain_field(name, "f")
    f%bits = transfer(value, f%bits)
  end function field_real8

  pure function field_real4(name, value) result(f)
    character(len=*), intent(in) :: name
    real(c_float), intent(in) :: value
    type(gridline_field) :: f
    f = field_real8(name, real(value, c_double))
  end function field_real4

  pure function field_logical(name, value) result(f)
    character(len=*), intent(in) :: name
    logical, intent(in) :: value
    type(gridline_field) :: f
    f = plain_field(name, "b")
    f%bits = merge(1_c_int64_t, 0_c_int64_t, value)
  end function field_logical

  pure function field_character(name, value) result(f)
    character(len=*), intent(in) :: name, value
    type(gridline_field) :: f
    f = plain_field(name, "t")
    f%text = trim(value) // c_null_char
  end function field_character

end module gridline
