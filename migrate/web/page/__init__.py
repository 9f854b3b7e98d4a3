"""The operator's page of `migrate web`: a look at the migration, rendered at the server, and renewed while it is open.

Others use `routes.Pages`.

routes       paths, who may read them, the headers of an answer
live         one stream of server-sent events: the parts of a page that changed
view         all that a page is made of, as values
details      what is listed beside the status: certificates, a cutover's journal, what is set aside
past_events  what happened when, of these
history      the status once a minute, kept in the state, for plots and for the list of migrations
plots        a plot's geometry and the sentence that says the same
render       values to HTML, by the files in templates/; static/ has the style and the script
row_search   a row looked for by table and key, as `migrate explain` does
"""
