{-# LANGUAGE UnboxedTuples #-}

-- | The values of a record's fields.
module FieldValuesTest (tests) where

import Data.Functor.Identity (Identity (..))
import Heddle.Json.Internal.FieldValues
import Heddle.Prim.Exception (Exception, throw, try)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "field values"
    [ testCase "each entry has its own type" $ do
        entries <- newEntries 3
        putEntry entries 0 (thing 'x')
        putEntry entries 1 (thing (succ :: Int -> Int))
        putEntry entries 2 (thing [1, 2 :: Int])
        values <- unsafeFieldValues entries
        at values 0 @?= 'x'
        (at values 1 :: Int -> Int) 4 @?= 5
        at values 2 @?= [1, 2 :: Int],
      testCase "the last value counts, also one of another type" $ do
        entries <- newEntries 1
        putEntry entries 0 (thing 'x')
        putEntry entries 0 (thing (7 :: Int))
        values <- unsafeFieldValues entries
        at values 0 @?= (7 :: Int),
      testCase "values are evaluated when they are put" $ do
        entries <- newEntries 1
        got <- try (putEntry entries 0 (thing (throw Late :: Int)))
        either (\Late -> True) (const False) got @?= True,
      testCase "an entry is present once it is set, and no other is" $ do
        there <- newPresence 5
        setPresent there 0
        setPresent there 3
        mapM (isPresent there) [0 .. 4] >>= (@?= [True, False, False, True, False])
    ]
  where
    thing x = runIdentity (anythings (Identity x))

at :: FieldValues -> Int -> a
at values i = case unsafeFieldValue values i of (# x #) -> x

data Late = Late
  deriving stock (Show)

instance Exception Late
