{-# LANGUAGE CPP #-}
{-# OPTIONS_GHC -Wno-redundant-constraints #-}
{-# OPTIONS_HADDOCK hide #-}

-- |
-- Module      : Heddle.Aeson.Internal.Compat
-- Description : What the versions of aeson have in different modules
-- Stability   : internal, exempt from the version policy
--
-- Cost: none but that of aeson's methods.
-- Owner: values.
module Heddle.Aeson.Internal.Compat
  ( IResult (..),
    JSONPath,
    JSONPathElement (..),
    ifromJSON,
    aesonOmits,
    aesonOmitted,
  )
where

import Data.Aeson (FromJSON (..), ToJSON (..))
#if MIN_VERSION_aeson(2,1,0)
import Data.Aeson.Types (IResult (..), JSONPath, JSONPathElement (..), ifromJSON)
#else
import Data.Aeson.Internal (IResult (..), JSONPath, JSONPathElement (..), ifromJSON)
#endif

-- | Whether aeson leaves out a field with this value; before aeson 2.2, its instances cannot say so.
aesonOmits :: ToJSON a => a -> Bool

-- | The value of a field that is missing; before aeson 2.2, its instances have none.
aesonOmitted :: FromJSON a => Maybe a
#if MIN_VERSION_aeson(2,2,0)
aesonOmits = omitField
aesonOmitted = omittedField
#else
aesonOmits _ = False
aesonOmitted = Nothing
#endif
