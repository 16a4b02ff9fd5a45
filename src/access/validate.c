/*
 * validate.c
 *		Checking operator classes, and how their members depend on each other.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "lazyhash.h"

/* The class under examination, and whether all is well so far. */
typedef struct Validation
{
	const char *family_name;
	bool		ok;
} Validation;

static void
complain(Validation *v, const char *detail)
{
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator family \"%s\" of access method lazyhash is not valid",
					v->family_name),
			 errdetail_internal("%s", detail)));
	v->ok = false;
}

/*
 * Do values of the two types look alike to a function that takes them as they
 * are stored?  The server's own hash classes count on it: date is hashed as
 * int4, timestamptz as timestamp, bool as "char".
 */
static bool
stored_alike(Oid a, Oid b)
{
	int16		alen,
				blen;
	bool		abyval,
				bbyval;
	char		aalign,
				balign;

	get_typlenbyvalalign(a, &alen, &abyval, &aalign);
	get_typlenbyvalalign(b, &blen, &bbyval, &balign);
	return alen > 0 && alen == blen && abyval == bbyval && aalign == balign;
}

/*
 * May a function that declares this argument be called with that type?  Those
 * that declare "internal" take any type of variable length; classes that came
 * with servers before 18 have such.
 */
static bool
takes_type(Oid declared, Oid type)
{
	if (declared == type || IsBinaryCoercible(type, declared))
		return true;
	if (declared == INTERNALOID)
		return get_typlen(type) == -1;
	return stored_alike(declared, type);
}

static bool
hash_proc_fits(Form_pg_amproc member)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(member->amproc));
	Form_pg_proc proc;
	bool		extended = member->amprocnum == LAZY_EXTENDED_PROC;
	bool		ok;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", member->amproc);
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	ok = !proc->proretset &&
		proc->prorettype == (extended ? INT8OID : INT4OID) &&
		proc->pronargs == (extended ? 2 : 1) &&
		(!extended || proc->proargtypes.values[1] == INT8OID) &&
		takes_type(proc->proargtypes.values[0], member->amproclefttype);
	ReleaseSysCache(tuple);
	return ok;
}

static void
validate_proc(Validation *v, Form_pg_amproc member)
{
	bool		ok;

	if (member->amproclefttype != member->amprocrighttype)
	{
		complain(v, psprintf("Support function %s has different left and right types.",
							 format_procedure(member->amproc)));
		return;
	}
	switch (member->amprocnum)
	{
		case LAZY_HASH_PROC:
		case LAZY_EXTENDED_PROC:
			ok = hash_proc_fits(member);
			break;
		case LAZY_OPTIONS_PROC:
			ok = check_amoptsproc_signature(member->amproc);
			break;
		default:
			complain(v, psprintf("Support function %s has the unknown number %d.",
								 format_procedure(member->amproc), member->amprocnum));
			return;
	}
	if (!ok)
		complain(v, psprintf("Support function %s with number %d has the wrong signature.",
							 format_procedure(member->amproc), member->amprocnum));
}

/* Name and access method of an operator family. */
static char *
family_of(Oid family, Oid *method)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family));
	Form_pg_opfamily form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", family);
	form = (Form_pg_opfamily) GETSTRUCT(tuple);
	name = pstrdup(NameStr(form->opfname));
	*method = form->opfmethod;
	ReleaseSysCache(tuple);
	return name;
}

static bool
has_hash_proc(CatCList *procs, Oid type)
{
	for (int i = 0; i < procs->n_members; i++)
	{
		Form_pg_amproc member = (Form_pg_amproc) GETSTRUCT(&procs->members[i]->tuple);

		if (member->amprocnum == LAZY_HASH_PROC && member->amproclefttype == type)
			return true;
	}
	return false;
}

static void
validate_operator(Validation *v, Form_pg_amop member, CatCList *procs)
{
	const char *name = format_operator(member->amopopr);

	if (member->amopstrategy != LAZY_EQUAL_STRATEGY)
		complain(v, psprintf("Operator %s has the unknown strategy number %d.",
							 name, member->amopstrategy));
	if (member->amoppurpose != AMOP_SEARCH || OidIsValid(member->amopsortfamily))
		complain(v, psprintf("Operator %s is for ordering, which a hash index cannot do.", name));
	if (!check_amop_signature(member->amopopr, BOOLOID,
							  member->amoplefttype, member->amoprighttype))
		complain(v, psprintf("Operator %s has the wrong signature.", name));
	if (!has_hash_proc(procs, member->amoplefttype) ||
		!has_hash_proc(procs, member->amoprighttype))
		complain(v, psprintf("Operator %s has an operand type without hash function.", name));
}

/* An operator class needs equality on its own type, and a hash function. */
static void
validate_class_members(Validation *v, Oid type, CatCList *operators, CatCList *procs)
{
	bool		has_equality = false;

	for (int i = 0; i < operators->n_members; i++)
	{
		Form_pg_amop member = (Form_pg_amop) GETSTRUCT(&operators->members[i]->tuple);

		if (member->amopstrategy == LAZY_EQUAL_STRATEGY &&
			member->amoplefttype == type && member->amoprighttype == type)
			has_equality = true;
	}
	if (!has_equality)
		complain(v, psprintf("It has no equality operator for type %s.", format_type_be(type)));
	if (!has_hash_proc(procs, type))
		complain(v, psprintf("It has no hash function for type %s.", format_type_be(type)));
}

bool
lazy_validate(Oid opclass)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Form_pg_opclass class;
	CatCList   *operators;
	CatCList   *procs;
	Validation	v = {.ok = true};
	Oid			method;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclass);
	class = (Form_pg_opclass) GETSTRUCT(tuple);
	v.family_name = family_of(class->opcfamily, &method);
	operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(class->opcfamily));
	procs = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(class->opcfamily));

	for (int i = 0; i < procs->n_members; i++)
		validate_proc(&v, (Form_pg_amproc) GETSTRUCT(&procs->members[i]->tuple));
	for (int i = 0; i < operators->n_members; i++)
		validate_operator(&v, (Form_pg_amop) GETSTRUCT(&operators->members[i]->tuple), procs);
	validate_class_members(&v, class->opcintype, operators, procs);

	ReleaseCatCacheList(procs);
	ReleaseCatCacheList(operators);
	ReleaseSysCache(tuple);
	return v.ok;
}

/*
 * A class cannot do without the hash function and the equality of its own type;
 * anything else can be taken out of the family again.
 */
static void
adjust_member(OpFamilyMember *member, Oid method, Oid family, Oid opclass)
{
	bool		needed = member->lefttype == member->righttype &&
		member->number == (member->is_func ? LAZY_HASH_PROC : LAZY_EQUAL_STRATEGY);

	if (needed && !OidIsValid(opclass))
		opclass = opclass_for_family_datatype(method, family, member->lefttype);
	member->ref_is_hard = needed && OidIsValid(opclass);
	member->ref_is_family = !member->ref_is_hard;
	member->refobjid = member->ref_is_hard ? opclass : family;
}

void
lazy_adjust_members(Oid family, Oid opclass, List *operators, List *functions)
{
	ListCell   *cell;
	Oid			method = InvalidOid;

	/* CREATE OPERATOR CLASS may have made the family just now, out of our sight; only ALTER asks */
	if (!OidIsValid(opclass))
		family_of(family, &method);
	foreach(cell, operators)
		adjust_member(lfirst(cell), method, family, opclass);
	foreach(cell, functions)
		adjust_member(lfirst(cell), method, family, opclass);
}
