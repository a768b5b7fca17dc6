"""The mathematics over protocols: derivatives, curvature, solving, resampling, influence, one row left out."""
