"""The predictor beside its peers on tables of everyday data: ``ejop reproduce suite``."""
