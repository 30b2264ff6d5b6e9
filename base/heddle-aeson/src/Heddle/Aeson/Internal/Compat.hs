{-# LANGUAGE CPP #-}
{-# OPTIONS_HADDOCK hide #-}

-- |
-- Module      : Heddle.Aeson.Internal.Compat
-- Description : What the versions of aeson have in different modules
-- Stability   : internal, exempt from the version policy
--
-- Cost: none.
-- Owner: values.
module Heddle.Aeson.Internal.Compat
  ( IResult (..),
    JSONPath,
    JSONPathElement (..),
    ifromJSON,
  )
where

#if MIN_VERSION_aeson(2,1,0)
import Data.Aeson.Types (IResult (..), JSONPath, JSONPathElement (..), ifromJSON)
#else
import Data.Aeson.Internal (IResult (..), JSONPath, JSONPathElement (..), ifromJSON)
#endif
