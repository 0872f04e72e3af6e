// What is wrong with a record.
#ifndef BD_RECORD_FAULTS_H
#define BD_RECORD_FAULTS_H

enum { RECORD_MOST_FAULTS = 20 }; // that are said

typedef struct record_faults {
  int count;
} record_faults;

// Says it, a line on stdout.
void record_fault(record_faults *faults, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#endif
