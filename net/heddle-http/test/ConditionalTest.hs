{-# LANGUAGE OverloadedStrings #-}

module ConditionalTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Int (Int64)
import Heddle.Http.Conditional
import Heddle.Http.Internal (MethodCode (..), defaultLimits, hasPreconditions, preconditionsOf)
import Heddle.Prim.Clock (EpochSeconds (..))
import Requests (withHead)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Conditional"
    [ testGroup
        "entity tags"
        [ testCase "strong and weak" $ do
            let tags = [ETag True "1", ETag True "2", ETag False "1"]
                pairs comparison = [comparison a b | (a, b) <- [(head tags, head tags), (head tags, tags !! 1), (head tags, tags !! 2), (tags !! 2, tags !! 2)]]
            -- The table of RFC 9110, section 8.8.3.2.
            pairs strongMatch @?= [False, False, False, True]
            pairs weakMatch @?= [True, False, True, True],
          testProperty "inverse" . forAll tag $ \t -> parseETag (renderETag t) === Just t,
          testProperty "lists" . forAll (listOf1 tag) $ \ts ->
            forAll (elements [",", ", ", " , ", ",,", ",\t, "]) $ \comma ->
              forAll (elements ["", ",", " "]) $ \around ->
                parseETagSet (B.concat [around, B.intercalate comma (map renderETag ts), around]) === Just (ETags ts),
          testCase "any" $ parseETagSet "*" @?= Just AnyETag,
          testProperty "only invalid" . forAll (elements faults) $ \text -> parseETagSet text === Nothing,
          testProperty "total" $ \bytes -> parseETagSet (B.pack bytes) `seq` True
        ],
      testGroup "evaluate" [testCase (show (method, current, conditions)) (evaluate method current conditions @?= outcome) | (method, current, conditions, outcome) <- table],
      localOption (QuickCheckTests 3000) . testProperty "the order of the RFC" $
        forAll scenario $ \(method, current, conditions) ->
          evaluate method current conditions === steps method current conditions,
      testGroup "ifRangeHolds" [testCase (show (now, text)) (ifRangeHolds (EpochSeconds now) representation text @?= expected) | (now, text, expected) <- ranges],
      testCase "preconditionsOf" $ do
        let input = "GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"a\"\r\nIf-Range: \"b\"\r\nif-none-match: \"c\"\r\n\r\n"
        withHead defaultLimits 100 [] input $ \buffer headTable _ -> do
          preconditionsOf buffer headTable >>= (@?= noPreconditions {ifNoneMatch = Just "\"a\", \"c\"", ifRange = Just "\"b\""})
          hasPreconditions headTable >>= (@?= True)
        withHead defaultLimits 100 [] "GET / HTTP/1.1\r\nHost: h\r\n\r\n" $ \buffer headTable _ -> do
          preconditionsOf buffer headTable >>= (@?= noPreconditions)
          hasPreconditions headTable >>= (@?= False)
    ]

tag :: Gen ETag
tag = ETag <$> arbitrary <*> (B.pack <$> listOf (elements (0x21 : [0x23 .. 0x7E] ++ [0x80 .. 0xFF])))

faults :: [ByteString]
faults = ["", ",", "a", "\"a", "a\"", "w/\"a\"", "W/a", "\"a\" \"b\"", "\"a\"b", "*, \"a\"", "\"a\", *", "\"a b\"", "\"a\0\"", "W/ \"a\"", "\"a\"\"b\""]

-- | Last modified on Sunday, 6 November 1994, 08:49:37 GMT.
representation :: Validators
representation = Validators (Just (ETag False "x")) (Just (EpochSeconds 784111777))

before, same, later :: ByteString
before = "Sun, 06 Nov 1994 08:49:36 GMT"
same = "Sun, 06 Nov 1994 08:49:37 GMT"
later = "Sun, 06 Nov 1994 08:49:38 GMT"

table :: [(MethodCode, Maybe Validators, Preconditions, Outcome)]
table =
  [ (MethodGet, here, none, Proceed),
    (MethodGet, here, none {ifNoneMatch = Just "\"x\""}, NotModified),
    (MethodGet, here, none {ifNoneMatch = Just "W/\"x\""}, NotModified),
    (MethodHead, here, none {ifNoneMatch = Just "*"}, NotModified),
    (MethodPut, here, none {ifNoneMatch = Just "*"}, PreconditionFailed),
    (MethodPut, Nothing, none {ifNoneMatch = Just "*"}, Proceed),
    (MethodGet, here, none {ifNoneMatch = Just "\"y\""}, Proceed),
    (MethodGet, here, none {ifNoneMatch = Just "\"y\"", ifModifiedSince = Just same}, Proceed),
    (MethodGet, here, none {ifNoneMatch = Just "junk"}, Proceed),
    (MethodPut, here, none {ifNoneMatch = Just "junk"}, PreconditionFailed),
    (MethodGet, here, none {ifModifiedSince = Just before}, Proceed),
    (MethodGet, here, none {ifModifiedSince = Just same}, NotModified),
    (MethodGet, here, none {ifModifiedSince = Just later}, NotModified),
    (MethodPost, here, none {ifModifiedSince = Just same}, Proceed),
    (MethodGet, here, none {ifModifiedSince = Just "junk"}, Proceed),
    (MethodGet, here, none {ifUnmodifiedSince = Just before}, PreconditionFailed),
    (MethodGet, here, none {ifUnmodifiedSince = Just same}, Proceed),
    (MethodGet, here, none {ifUnmodifiedSince = Just "junk"}, Proceed),
    (MethodGet, here, none {ifMatch = Just "\"x\""}, Proceed),
    (MethodGet, here, none {ifMatch = Just "W/\"x\""}, PreconditionFailed),
    (MethodGet, here, none {ifMatch = Just "\"x\"", ifUnmodifiedSince = Just before}, Proceed),
    (MethodGet, here, none {ifMatch = Just "\"x\"", ifNoneMatch = Just "\"x\""}, NotModified),
    (MethodGet, here, none {ifMatch = Just "*"}, Proceed),
    (MethodPut, Nothing, none {ifMatch = Just "*"}, PreconditionFailed),
    (MethodPut, here, none {ifMatch = Just "junk"}, PreconditionFailed)
  ]
  where
    here = Just representation
    none = noPreconditions

ranges :: [(Int64, ByteString, Bool)]
ranges =
  [ (784111800, "\"x\"", True),
    (784111800, "W/\"x\"", False),
    (784111800, "\"y\"", False),
    (784111800, same, True),
    (784111800, before, False),
    (784111800, later, False),
    (784111777, same, False),
    (784111778, same, True),
    (784111800, "junk", False)
  ]

-- | Conditions whose truth is known, and so the outcome.
scenario :: Gen (MethodCode, Maybe Validators, Preconditions)
scenario = do
  method <- elements [MethodGet, MethodHead, MethodPost, MethodPut]
  current <- elements [Nothing, Just representation, Just (Validators Nothing Nothing)]
  let tags = elements [Nothing, Just "*", Just "\"x\"", Just "\"y\", \"x\"", Just "\"y\"", Just "W/\"x\""]
      dates = elements [Nothing, Just before, Just same, Just later]
  conditions <- Preconditions <$> tags <*> tags <*> dates <*> dates <*> pure Nothing
  pure (method, current, conditions)

-- | Section 13.2.2, step by step, on conditions that are well formed.
steps :: MethodCode -> Maybe Validators -> Preconditions -> Outcome
steps method current conditions
  | Just text <- ifMatch conditions, not (named strongMatch text) = PreconditionFailed
  | Nothing <- ifMatch conditions, Just date <- ifUnmodifiedSince conditions, Just True <- newer date = PreconditionFailed
  | Just text <- ifNoneMatch conditions, named weakMatch text = if safe then NotModified else PreconditionFailed
  | Nothing <- ifNoneMatch conditions, safe, Just date <- ifModifiedSince conditions, Just False <- newer date = NotModified
  | otherwise = Proceed
  where
    safe = method `elem` [MethodGet, MethodHead]
    named comparison text = case (text, current) of
      (_, Nothing) -> False
      ("*", _) -> True
      (_, Just v) -> or [comparison t u | Just t <- [currentETag v], Just (ETags ts) <- [parseETagSet text], u <- ts]
    newer date = (\(EpochSeconds s) -> s > moment date) <$> (current >>= currentModified)
    moment date
      | date == before = 784111776
      | date == same = 784111777
      | otherwise = 784111778
