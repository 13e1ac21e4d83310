// SPDX-License-Identifier: GPL-2.0-only
/* Makes the tracepoints of record.h. */
#define CREATE_TRACE_POINTS
#include "record.h"
