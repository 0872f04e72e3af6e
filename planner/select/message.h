// The two products of a matrix with a vector in the (min, +) algebra: all the time of the search
// goes here.
#ifndef BD_PLANNER_SELECT_MESSAGE_H
#define BD_PLANNER_SELECT_MESSAGE_H

// out[j] = min over i of in[i] + matrix[i][j].
void bd_select_min_rows(const double *matrix, int rows, int columns, const double *in, double *out);
// out[i] = min over j of in[j] + matrix[i][j].
void bd_select_min_columns(const double *matrix, int rows, int columns, const double *in,
                           double *out);
#endif
