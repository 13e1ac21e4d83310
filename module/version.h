/* SPDX-License-Identifier: GPL-2.0-only */
/* The version of the module: that of the program `foreread`, and of dkms.conf. */
#ifndef FM_VERSION_H
#define FM_VERSION_H

#define FM_VERSION "0.1.0"

#endif /* FM_VERSION_H */
