/*
 * testpoint.h
 *		Named points at which tests can have a backend fail or wait.
 *
 * Built only with -DLAZY_TEST_POINTS; otherwise LAZY_TEST_POINT() is nothing.
 * The setting lazyhash.fail_at = 'name' or 'name:n' raises an error the n-th
 * time (default: first) that the backend comes to the point; lazyhash.wait_at =
 * 'name' makes it wait there each time, so that others come to see the state.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_ACCESS_TESTPOINT_H
#define LAZY_ACCESS_TESTPOINT_H

#ifdef LAZY_TEST_POINTS
extern void lazy_test_point(const char *name);
extern void lazy_test_points_init(void);
#define LAZY_TEST_POINT(name)	lazy_test_point(name)
#else
#define LAZY_TEST_POINT(name)	((void) 0)
#endif

#endif							/* LAZY_ACCESS_TESTPOINT_H */
