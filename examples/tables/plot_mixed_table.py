"""
Text, gaps, dates and euros
===========================

A table as people have it goes in as it is. The model says what it made of each column, and speaks
of the columns of the table, whatever they became.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import train_test_split

from ejop import EGOPRegressor
from ejop.plots import ContributionDisplay, ImportanceDisplay

flats = pd.read_csv("../flats.csv", sep=";").dropna(subset="rent")
rent = flats.pop("rent").str.replace(r"[ €.]", "", regex=True)
rent = rent.str.replace(",", ".").astype(float)
print(flats.drop(columns="remark").head(3).T)

# %%
# The table is made up, so that the truth is known: size, its price in each district, the year of
# building and the balcony make the rent. The number names the rows. The remark is free text, which
# a model leaves out with a warning; here it is dropped before.

flats = flats.set_index("id").drop(columns="remark")
X_train, X_test, y_train, y_test = train_test_split(flats, rent, random_state=0)
model = EGOPRegressor(random_state=0).fit(X_train, y_train)
print("\n".join(model.preparer_.in_words()))
print(f"R2 of new flats: {model.score(X_test, y_test):.2f}")

# %%
# What matters, by column of the table. Floor, heating and date get next to nothing.

ImportanceDisplay.from_estimator(model)
plt.show()

# %%
# What each column adds to each rent.

ContributionDisplay.from_estimator(model, X_test)
plt.show()
